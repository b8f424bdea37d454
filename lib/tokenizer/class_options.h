// What tokenizer_config.json says that is meant for a tokenizer class of transformers, and that
// class: which of a tokenizer.json's parts they change.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/unused_keys.h"

namespace nvllm {

class JsonView;

struct ClassOptions {
    std::string tokenizer_class;  // without "Fast"; empty: the one that takes a file as it is
    std::optional<bool> add_prefix_space;
    std::optional<bool> do_lower_case;
    std::optional<bool> tokenize_chinese_chars;
    std::optional<std::optional<bool>> strip_accents;  // null: as do_lower_case
};

// The options in tokenizer_config.json; their names are added to `used`. Throws Error{bad_data}
// when one is no truth value.
ClassOptions read_class_options(const JsonView& config, KeySet& used);

// The class that transformers' AutoTokenizer makes: `named` in tokenizer_config.json or in
// config.json (may be empty), of a model of this type (may be empty). Empty for those that take a
// tokenizer.json as it is.
std::string tokenizer_class_of(std::string named, std::string_view model_type);

// Changes the parts of a tokenizer.json as transformers' class does where an option is given. What
// is not given stays as the file has it, and so does the file's pipeline as a whole, although some
// classes of transformers 5 build their own. What could not be applied is added to `notes`.
void apply_class_options(nlohmann::json& document, const ClassOptions& options,
                         std::vector<std::string>& notes);

}  // namespace nvllm
