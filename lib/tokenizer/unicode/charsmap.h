// SentencePiece's precompiled character map: a double-array trie from byte strings to replacements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/json_view.h"

namespace nvllm {

class Charsmap {
  public:
    Charsmap() = default;
    // The binary form within a SentencePiece model. Throws Error{bad_data}, naming `source`.
    Charsmap(std::string_view blob, const std::string& source);
    static Charsmap from_base64(const JsonView& text);

    bool empty() const { return units_.empty(); }

    struct Match {
        size_t length = 0;  // bytes of the key
        std::string_view replacement;
    };
    // The longest key that `text` starts with.
    std::optional<Match> longest(std::string_view text) const;
    // The replacement for the shortest key that `text` starts with.
    std::optional<std::string_view> shortest(std::string_view text) const;

  private:
    template <typename Found>
    void walk(std::string_view text, Found&& found) const;
    std::string_view replacement_at(uint32_t offset) const;

    std::vector<uint32_t> units_;
    std::string replacements_;  // each ended by a zero byte
};

// Standard base64 with padding. Nothing when it is not that.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace nvllm
