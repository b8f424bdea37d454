// Where the tables of characters behind tokenizer.json differ from the ones this project links.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nvllm::unicode {

// In our tables, not in theirs.
bool no_punctuation(char32_t c);
bool no_mark(char32_t c);
bool no_nonspacing_mark(char32_t c);
bool no_other(char32_t c);
bool no_decomposition(char32_t c);

// In their tables, not in ours.
bool later_word(char32_t c);
bool later_number(char32_t c);
// The lower case that only their tables know; else c.
char32_t later_lower(char32_t c);

// Whether regular expressions of theirs see the character otherwise than PCRE2 does.
bool is_recent(char32_t c);
// The ranges to add to a property within a class ("L", "Lu", "sc:Han"), in the notation of
// patterns.
std::string recent_members(std::string_view property);

}  // namespace nvllm::unicode
