// Which special tokens the small files next to a tokenizer name, and how, as transformers 5 reads
// them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/unused_keys.h"
#include "lib/tokenizer/added_tokens.h"

namespace nvllm {

class JsonView;

// A token by the name that chat templates know it by: "bos_token", "image_token" ...
struct NamedToken {
    std::string name;
    AddedToken token;
    bool is_default = false;  // no file names it: it is the tokenizer class's own
};

struct SpecialTokens {
    // The seven usual ones first, in transformers' order; then the others as the files have them.
    std::vector<NamedToken> named;
    std::vector<AddedToken> extra;  // special as well, without a name

    // Empty when there is none of that name.
    const std::string& text(std::string_view name) const;
    // Whether a file gives this text one of the usual names or has it in the list.
    bool contains(std::string_view content) const;
    // Gives a name that has none this text.
    void name_if_unnamed(const std::string& name, const std::string& text);
    // Whether some name has this text.
    bool is_named(std::string_view content) const;
};

// Gathers them file by file; a later one wins.
class SpecialTokenReader {
  public:
    // tokenizer_config.json.
    void read_config(const nlohmann::ordered_json& config, const std::string& file_name);
    // special_tokens_map.json, which transformers reads only where tokenizer_config.json has no
    // added_tokens_decoder.
    void read_map(const nlohmann::ordered_json& map, const std::string& file_name);
    // The class's own tokens for the names that no file has, not even as null.
    SpecialTokens take(std::string_view tokenizer_class);

    // The keys that were of use so far.
    const KeySet& used() const { return used_; }

  private:
    void read_names(const nlohmann::ordered_json& object, const std::string& file_name,
                    bool is_special);
    void name(const std::string& name, AddedToken token);
    void read_extra(const std::string& key, const nlohmann::ordered_json& value,
                    const std::string& file_name, bool is_special);

    SpecialTokens tokens_;
    KeySet used_;
    KeySet decided_;  // names that a file has, as null too
};

// One entry of an added token list, as tokenizer.json and tokenizer_config.json write it. Throws
// Error{bad_data} when it has no content or a switch is no truth value.
AddedToken read_added_token(const JsonView& entry);

}  // namespace nvllm
