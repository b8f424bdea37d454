// UTF-8: decoding, checking, repairing; broken bytes become U+FFFD, one per maximal bad part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nvllm::utf8 {

constexpr char32_t kReplacement = 0xFFFD;
constexpr std::string_view kReplacementText = "\xEF\xBF\xBD";

struct Decoded {
    char32_t code_point = kReplacement;
    uint32_t length = 1;  // bytes consumed; for broken text the length of the maximal bad part
    bool valid = false;
    bool incomplete = false;  // broken only because the text ends: more bytes could complete it
};

// The first character of `text`. REQUIRES: text is not empty.
Decoded decode(std::string_view text);

bool is_valid(std::string_view text);
bool is_ascii(std::string_view text);

// `text` with every maximal bad part replaced by U+FFFD (the Unicode standard's recommended
// practice).
std::string with_replacement(std::string_view text);

// Appends one character; surrogates and numbers above U+10FFFF become U+FFFD.
void append(std::string& text, char32_t code_point);

// The number of characters. REQUIRES: text is valid.
size_t count(std::string_view text);

// How many bytes at the end of `text` begin a character that further bytes could complete (0 to 3).
size_t incomplete_suffix(std::string_view text);

// All characters. Broken parts give U+FFFD.
std::u32string to_code_points(std::string_view text);
std::string from_code_points(std::u32string_view text);

// The length in bytes of the character that starts with `lead`. REQUIRES: lead starts a valid
// character.
constexpr uint32_t length_from_lead(unsigned char lead) {
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// Calls visit(code_point, offset, length) for every character. REQUIRES: text is valid.
template <typename Visit>
void for_each(std::string_view text, Visit&& visit) {
    for (size_t at = 0; at < text.size();) {
        const Decoded character = decode(text.substr(at));
        visit(character.code_point, at, static_cast<size_t>(character.length));
        at += character.length;
    }
}

}  // namespace nvllm::utf8
