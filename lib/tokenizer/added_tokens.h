// Tokens outside the model's own vocabulary work: special tokens and others that are found in the
// text as they are.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lib/tokenizer/prefix_trie.h"
#include "lib/tokenizer/token_model.h"
#include "lib/tokenizer/unicode/normalizer.h"
#include "lib/tokenizer/unicode/regex.h"

namespace nvllm {

struct AddedToken {
    std::string content;
    bool special = false;
    bool single_word = false;  // only where no word character touches it
    bool lstrip = false;       // takes the white space before it
    bool rstrip = false;       // takes the white space behind it
    bool normalized = false;   // is looked for in the normalized text, in normalized form

    bool operator==(const AddedToken&) const = default;
};

// A span of text: one added token, or text in between.
struct TextSection {
    ByteRange range;
    std::optional<int32_t> id;
};

// Filled by add() and prepare(), then immutable and thread-safe.
class AddedTokens {
  public:
    // Gives the token its id: its own where it was added before (its flags are then replaced, but a
    // special token stays one), the vocabulary's, else the next free one. Gives back that id;
    // nothing for an empty token and one that was added before.
    std::optional<int32_t> add(const AddedToken& token, const Vocabulary& vocabulary);
    // As add(), with an id that the file decides. REQUIRES: the id is free or the token's own.
    void add_with_id(const AddedToken& token, int32_t id);
    // Call once after the last add().
    void prepare(const Normalizer* normalizer);

    std::optional<int32_t> id(std::string_view content) const;
    const AddedToken* token(int32_t id) const;
    bool is_special(std::string_view content) const {
        return special_.contains(std::string(content));
    }
    int32_t id_limit() const { return id_limit_; }

    enum class Kind { raw, normalized };
    // The sections of `text`, left to right. `accept(token, range)` may refuse a match.
    template <typename Accept>
    std::vector<TextSection> split(std::string_view text, Kind kind, Accept&& accept) const;

  private:
    struct Finder {
        PrefixTrie trie;
        size_t longest = 0;
    };
    // The leftmost, then longest, match at or after `from`.
    static std::optional<TextSection> find(const Finder& finder, std::string_view text,
                                           size_t from);
    static bool stands_alone(std::string_view text, ByteRange range);
    static ByteRange with_spaces(const AddedToken& token, std::string_view text, ByteRange range,
                                 size_t not_before);

    std::unordered_map<std::string, int32_t> ids_;
    std::unordered_map<int32_t, AddedToken> tokens_;
    std::vector<std::string> special_order_;
    std::vector<std::string> plain_order_;
    std::unordered_set<std::string> special_;
    Finder raw_;
    Finder normalized_;
    int32_t id_limit_ = 0;
};

template <typename Accept>
std::vector<TextSection> AddedTokens::split(std::string_view text, Kind kind,
                                            Accept&& accept) const {
    const Finder& finder = kind == Kind::raw ? raw_ : normalized_;
    std::vector<TextSection> sections;
    size_t done = 0;
    size_t from = 0;
    while (const auto match = find(finder, text, from)) {
        from = match->range.end;
        const AddedToken& token = tokens_.at(*match->id);
        if (!accept(token, match->range)) continue;
        if (token.single_word && !stands_alone(text, match->range)) continue;
        const ByteRange range = with_spaces(token, text, match->range, done);
        if (done < range.begin) sections.push_back({{done, range.begin}, std::nullopt});
        sections.push_back({range, match->id});
        done = range.end;
    }
    if (done < text.size()) sections.push_back({{done, text.size()}, std::nullopt});
    return sections;
}

}  // namespace nvllm
