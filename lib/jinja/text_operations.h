// Operations on texts that methods, filters and formatting share; marks stay with the characters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/utf8.h"
#include "lib/jinja/tracked_text.h"
#include "lib/jinja/value.h"

namespace nvllm::chat {

// Where the last character begins. REQUIRES: text is not empty.
size_t last_character_of(std::string_view text);

// The same text with each character changed by `change(out, character)`.
template <typename Change>
TrackedText mapped_text(const TrackedText& text, Change&& change) {
    TrackedText out;
    out.reserve(text.size());
    size_t next_mark = 0;
    const auto& marks = text.marks();
    std::string buffer;
    utf8::for_each(text.bytes(), [&](char32_t c, size_t at, size_t) {
        while (next_mark < marks.size() && marks[next_mark].end <= at) ++next_mark;
        const bool marked = next_mark < marks.size() && marks[next_mark].begin <= at;
        buffer.clear();
        change(buffer, c);
        out.append(buffer, marked);
    });
    return out;
}

// What str.isspace() and str.split() count as space.
bool is_python_space(char32_t c);

// str.strip() and its halves; an empty set of characters means white space.
TrackedText stripped(const TrackedText& text, std::string_view characters, bool left, bool right);

// Where `wanted` begins in the text, looked for from `from` on, or where the last of its kind does;
// npos when it is not there. In a time that grows with the lengths, not with their product.
// REQUIRES: from is at most the text's size.
size_t first_in(std::string_view text, std::string_view wanted, size_t from = 0);
size_t last_in(std::string_view text, std::string_view wanted);

// str.replace(); a negative count means all.
TrackedText replaced(const TrackedText& text, const TrackedText& from, const TrackedText& to,
                     int64_t count);

// str.splitlines()
std::vector<TrackedText> lines_of(const TrackedText& text, bool keep_ends);

// str.lower(), str.upper(), str.capitalize()
TrackedText lower_of(const TrackedText& text);
TrackedText upper_of(const TrackedText& text);
TrackedText capitalized(const TrackedText& text);

// Jinja's |title.
TrackedText title_of(const TrackedText& text);

// The text with `fill` before and behind it.
TrackedText padded(const TrackedText& text, size_t before, size_t behind, std::string_view fill);

}  // namespace nvllm::chat
