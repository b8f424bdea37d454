// Classes of characters and case, as the tokenizers in use define them: each class with the tables
// of its own age.
#pragma once

#include <string>
#include <string_view>

namespace nvllm::unicode {

bool is_white_space(char32_t c);  // the property White_Space
bool is_punctuation(
    char32_t c);  // categories P*, and all ASCII punctuation (also $ + < = > ^ ` | ~)
bool is_general_punctuation(char32_t c);  // categories P* only
bool is_mark(char32_t c);                 // categories M*, but for late ones
bool is_nonspacing_mark(char32_t c);      // category Mn, but for late ones
bool is_number(char32_t c);               // categories N*
bool is_decimal_digit(char32_t c);        // category Nd
bool is_letter(char32_t c);               // categories L*
bool is_uppercase(char32_t c);            // category Lu
bool is_lowercase(char32_t c);            // category Ll
bool is_titlecase(char32_t c);            // category Lt
bool is_word(char32_t c);                 // \w of Unicode regular expressions
bool is_other(char32_t c);                // control, format, private use, surrogate
bool is_printable(char32_t c);            // what Python's repr() shows as it is
bool is_cjk_ideograph(char32_t c);        // the ranges that BERT puts spaces around

char32_t to_lower(char32_t c);
char32_t to_upper(char32_t c);
char32_t to_title(char32_t c);

// Appends the full lower or upper case of one character, which may be several.
void append_lower(std::string& out, char32_t c);
void append_upper(std::string& out, char32_t c);

// Whether a grapheme cluster may end between two characters; `state` starts at 0 and is carried
// along.
bool grapheme_break(char32_t before, char32_t after, int& state);

enum class Form { nfc, nfd, nfkc, nfkd };

// One of Unicode's normal forms. Time is n log n at worst, whatever the text. REQUIRES: valid
// UTF-8.
std::string normal_form(std::string_view text, Form form);

// Whether normalizing the parts before and after `c` apart gives the same as normalizing them
// together.
bool starts_unit(char32_t c);

// Whether `c` stays as it is in NFC whatever follows that starts_unit(); quick, may say no too
// often.
bool surely_nfc(char32_t c);

}  // namespace nvllm::unicode
