// Python's str, as far as methods, filters and formatting share it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/text/chat/tracked_text.h"
#include "lib/text/chat/value.h"

namespace nvllm::chat {

// What str.isspace() and str.split() count as space.
bool is_python_space(char32_t c);

// str.strip() and its halves; an empty set of characters means white space.
TrackedText stripped(const TrackedText& text, std::string_view characters, bool left, bool right);

// str.replace(); a negative count means all.
TrackedText replaced(const TrackedText& text, const TrackedText& from, const TrackedText& to, int64_t count);

// str.splitlines()
std::vector<TrackedText> lines_of(const TrackedText& text, bool keep_ends);

// str.capitalize(), str.lower(), str.upper(): marks stay exact where lengths do, else the whole is marked.
TrackedText lower_of(const TrackedText& text);
TrackedText upper_of(const TrackedText& text);
TrackedText capitalized(const TrackedText& text);

// Jinja's |title.
TrackedText title_of(const TrackedText& text);

// The text with `fill` before and behind it.
TrackedText padded(const TrackedText& text, size_t before, size_t behind, std::string_view fill);

}  // namespace nvllm::chat
