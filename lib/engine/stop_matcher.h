// Finds stop strings in text that arrives in pieces, and says how much of it is safe to show.
//
// Matching is on text, never on tokens: a stop string may begin in one token and end in another.
// Text that could still become a stop string is held back until it is clear that it does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

class StopMatcher {
  public:
    // Empty strings in the list are refused before; none means everything is always safe.
    explicit StopMatcher(std::vector<std::string> stop_strings);

    struct Match {
        size_t begin = 0;  // of the earliest stop string in the whole text
        size_t end = 0;
        size_t index = 0;  // which one it is, in the order they were given
    };

    // The earliest match in `text` (all generated so far) that ends after `already_searched` bytes.
    std::optional<Match> find(std::string_view text, size_t already_searched) const;

    // Bytes of `text` that cannot be the beginning of a stop string any more. Takes time in
    // proportion to the bytes of all stop strings.
    size_t safe_length(std::string_view text) const;

  private:
    struct Stop {
        std::string text;
        // At i: how long a beginning of `text`, shorter than i + 1, ends its first i + 1 bytes
        // (Knuth, Morris, Pratt: Fast pattern matching in strings, 1977).
        std::vector<uint32_t> borders;

        // Of the longest beginning of `text` that `tail` ends with. REQUIRES: `tail` is shorter.
        size_t length_begun(std::string_view tail) const;
    };

    std::vector<Stop> stops_;
};

}  // namespace nvllm
