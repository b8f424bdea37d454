// Stripping, replacing, cutting into lines, and case, as Python has them.
#include "lib/jinja/text_operations.h"

#include <cstring>

#include "lib/tokenizer/unicode/unicode.h"

namespace nvllm::chat {

size_t last_character_of(std::string_view text) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    return at;
}

bool is_python_space(char32_t c) { return unicode::is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

TrackedText stripped(const TrackedText& text, std::string_view characters, bool left, bool right) {
    const std::string_view bytes = text.bytes();
    const std::u32string set = utf8::to_code_points(characters);
    const auto goes = [&](char32_t c) {
        return characters.empty() ? is_python_space(c) : set.find(c) != std::u32string::npos;
    };
    size_t begin = 0;
    size_t end = bytes.size();
    while (left && begin < end) {
        const utf8::Decoded c = utf8::decode(bytes.substr(begin));
        if (!goes(c.code_point)) break;
        begin += c.length;
    }
    while (right && end > begin) {
        const size_t at = last_character_of(bytes.substr(0, end));
        if (!goes(utf8::decode(bytes.substr(at)).code_point)) break;
        end = at;
    }
    return text.substr(begin, end);
}

size_t first_in(std::string_view text, std::string_view wanted, size_t from) {
    const void* found =
        memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
    if (found == nullptr) return std::string_view::npos;
    return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t last_in(std::string_view text, std::string_view wanted) {
    const std::string text_back(text.rbegin(), text.rend());
    const std::string wanted_back(wanted.rbegin(), wanted.rend());
    const size_t found = first_in(text_back, wanted_back);
    return found == std::string_view::npos ? found : text.size() - wanted.size() - found;
}

TrackedText replaced(const TrackedText& text, const TrackedText& from, const TrackedText& to,
                     int64_t count) {
    TrackedText out;
    size_t done = 0;
    size_t at = 0;
    const std::string& bytes = text.bytes();
    for (int64_t i = 0; count < 0 || i < count; ++i) {
        const size_t found = first_in(bytes, from.bytes(), at);
        if (found == std::string::npos) break;
        out.append(text.substr(done, found));
        out.append(to);
        done = found + from.size();
        at = done;
        if (!from.empty()) continue;
        // The empty text is found before every character and at the end.
        if (found == bytes.size()) break;
        at = found + utf8::length_from_lead(static_cast<unsigned char>(bytes[found]));
    }
    out.append(text.substr(done, text.size()));
    return out;
}

std::vector<TrackedText> lines_of(const TrackedText& text, bool keep_ends) {
    std::vector<TrackedText> lines;
    size_t begin = 0;
    bool after_return = false;
    utf8::for_each(text.bytes(), [&](char32_t c, size_t at, size_t length) {
        if (c == '\n' && after_return) {
            if (keep_ends) lines.back() = text.substr(begin - lines.back().size(), at + length);
            begin = at + length;
            after_return = false;
            return;
        }
        after_return = c == '\r';
        const bool ends = (c >= 0xA && c <= 0xD) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                          c == 0x2028 || c == 0x2029;
        if (!ends) return;
        lines.push_back(text.substr(begin, keep_ends ? at + length : at));
        begin = at + length;
    });
    if (begin < text.size()) lines.push_back(text.substr(begin, text.size()));
    return lines;
}

TrackedText lower_of(const TrackedText& text) { return mapped_text(text, unicode::append_lower); }
TrackedText upper_of(const TrackedText& text) { return mapped_text(text, unicode::append_upper); }

TrackedText capitalized(const TrackedText& text) {
    bool first = true;
    return mapped_text(text, [&](std::string& out, char32_t c) {
        if (first) {
            utf8::append(out, unicode::to_title(c));
        } else {
            unicode::append_lower(out, c);
        }
        first = false;
    });
}

TrackedText title_of(const TrackedText& text) {
    bool starts = true;
    return mapped_text(text, [&](std::string& out, char32_t c) {
        const bool separates =
            c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_python_space(c);
        if (starts && !separates) {
            unicode::append_upper(out, c);
        } else {
            unicode::append_lower(out, c);
        }
        starts = separates;
    });
}

TrackedText padded(const TrackedText& text, size_t before, size_t behind, std::string_view fill) {
    TrackedText out;
    for (size_t i = 0; i < before; ++i) out.append(fill);
    out.append(text);
    for (size_t i = 0; i < behind; ++i) out.append(fill);
    return out;
}

}  // namespace nvllm::chat
