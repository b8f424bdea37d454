// UTF-8 after table 3-7 of the Unicode standard (well-formed byte sequences).
#include "lib/base/utf8.h"

#include <algorithm>

namespace nvllm::utf8 {
namespace {

// What may follow a lead byte: how many bytes there are in all, and the range of the second one.
struct LeadRule {
    uint32_t length;
    unsigned char second_low;
    unsigned char second_high;
};

LeadRule rule_for(unsigned char lead) {
    if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
    if (lead == 0xE0) return {3, 0xA0, 0xBF};
    if (lead == 0xED) return {3, 0x80, 0x9F};
    if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
    if (lead == 0xF0) return {4, 0x90, 0xBF};
    if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
    if (lead == 0xF4) return {4, 0x80, 0x8F};
    return {0, 0, 0};
}

}  // namespace

Decoded decode(std::string_view text) {
    const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return {lead, 1, true, false};
    const LeadRule rule = rule_for(lead);
    if (rule.length == 0) return {};
    char32_t code_point = lead & (0xFFu >> (rule.length + 1));
    for (uint32_t i = 1; i < rule.length; ++i) {
        if (i >= text.size()) return {kReplacement, i, false, true};
        const unsigned char low = i == 1 ? rule.second_low : 0x80;
        const unsigned char high = i == 1 ? rule.second_high : 0xBF;
        if (byte(i) < low || byte(i) > high) return {kReplacement, i, false, false};
        code_point = (code_point << 6) | (byte(i) & 0x3Fu);
    }
    return {code_point, rule.length, true, false};
}

bool is_ascii(std::string_view text) {
    return std::none_of(text.begin(), text.end(),
                        [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

bool is_valid(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        const Decoded character = decode(text.substr(at));
        if (!character.valid) return false;
        at += character.length;
    }
    return true;
}

std::string with_replacement(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const Decoded character = decode(text.substr(at));
        if (character.valid) {
            out.append(text.substr(at, character.length));
        } else {
            out.append(kReplacementText);
        }
        at += character.length;
    }
    return out;
}

void append(std::string& text, char32_t code_point) {
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
        code_point = kReplacement;
    }
    const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
    if (code_point < 0x80) {
        put(code_point);
    } else if (code_point < 0x800) {
        put(0xC0 | (code_point >> 6));
        put(0x80 | (code_point & 0x3F));
    } else if (code_point < 0x10000) {
        put(0xE0 | (code_point >> 12));
        put(0x80 | ((code_point >> 6) & 0x3F));
        put(0x80 | (code_point & 0x3F));
    } else {
        put(0xF0 | (code_point >> 18));
        put(0x80 | ((code_point >> 12) & 0x3F));
        put(0x80 | ((code_point >> 6) & 0x3F));
        put(0x80 | (code_point & 0x3F));
    }
}

size_t count(std::string_view text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
}

size_t incomplete_suffix(std::string_view text) {
    const size_t most = std::min<size_t>(3, text.size());
    for (size_t length = 1; length <= most; ++length) {
        const Decoded character = decode(text.substr(text.size() - length));
        if (character.incomplete && character.length == length) return length;
    }
    return 0;
}

std::u32string to_code_points(std::string_view text) {
    std::u32string out;
    out.reserve(text.size());
    for_each(text, [&](char32_t code_point, size_t, size_t) { out.push_back(code_point); });
    return out;
}

std::string from_code_points(std::u32string_view text) {
    std::string out;
    for (const char32_t code_point : text) append(out, code_point);
    return out;
}

}  // namespace nvllm::utf8
