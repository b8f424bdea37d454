// Regular expressions of tokenizers: PCRE2 with JIT, given the meaning that Oniguruma gives the
// same pattern.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace nvllm {

struct ByteRange {
    size_t begin = 0;
    size_t end = 0;
    bool operator==(const ByteRange&) const = default;
};

// The pattern in PCRE2's notation: scripts by name, \s and \w as Unicode has them, class
// intersections as look-ahead, nested classes flattened. With `recent_characters`, properties also
// hold the characters that are newer than PCRE2's tables. Throws Error{bad_data} for what cannot be
// said exactly.
std::string translate_pattern(std::string_view pattern, bool recent_characters = false);

// A compiled pattern. Immutable; thread-safe.
class Regex {
  public:
    // Throws Error{bad_data} with the pattern and the offset of the mistake.
    explicit Regex(std::string_view pattern);
    // Matches exactly this text.
    static Regex literal(std::string_view text);

    // Successive matches in one text, without overlap. Not thread-safe; holds on to both.
    class Matches {
      public:
        Matches(const Regex& regex, std::string_view text);
        ~Matches();
        Matches(const Matches&) = delete;
        Matches& operator=(const Matches&) = delete;
        // The next match, or false. Throws Error{bad_data} when the limits of matching are reached.
        bool next(ByteRange& match);

      private:
        bool search();

        const Regex& regex_;
        std::string_view text_;
        const void* code_ = nullptr;
        void* data_ = nullptr;
        size_t at_ = 0;
        size_t last_end_ = static_cast<size_t>(-1);
        bool done_ = false;
    };

  private:
    struct Code;
    Regex() = default;
    std::string source_;
    std::string literal_;  // set: plain search, code_ is empty
    std::shared_ptr<Code> code_;
};

}  // namespace nvllm
