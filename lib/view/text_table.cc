// Wrapping and alignment.
#include "lib/view/text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/utf8.h"

namespace nvllm::view {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kLabel = 18;  // columns of a label, with the space behind it

size_t columns(const std::string& text) { return utf8::count(utf8::with_replacement(text)); }

std::string padded(const std::string& text, size_t width, bool right) {
    const std::string fill(width - std::min(width, columns(text)), ' ');
    return right ? fill + text : text + fill;
}

std::vector<size_t> column_widths(const std::vector<std::vector<std::string>>& rows) {
    std::vector<size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
    }
    return widths;
}

}  // namespace

std::vector<std::string> wrapped(std::string_view text, size_t width) {
    std::vector<std::string> lines(1);
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(' ', begin), text.size());
        const std::string_view word = text.substr(begin, end - begin);
        if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) {
            lines.emplace_back();
        }
        if (!lines.back().empty()) lines.back() += ' ';
        lines.back() += word;
        begin = end + 1;
    }
    return lines;
}

std::string printable(std::string_view text) {
    std::string out;
    for (const char c : utf8::with_replacement(text)) {
        const auto byte = static_cast<unsigned char>(c);
        out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
    }
    return out;
}

void TextSheet::line(std::string_view text) { text_ += printable(text) + "\n"; }

void TextSheet::gap() {
    if (!text_.empty()) text_ += '\n';
}

void TextSheet::row(std::string_view label, std::string_view value) {
    std::string head = fmt::format("{:<{}}", label, kLabel);
    for (const std::string& part : wrapped(printable(value), kWidth - kLabel)) {
        text_ += head + part + "\n";
        head = std::string(kLabel, ' ');
    }
}

void TextSheet::table(const std::vector<std::vector<std::string>>& rows, const std::string& sides) {
    const std::vector<size_t> widths = column_widths(rows);
    for (const auto& row : rows) {
        std::string text = " ";
        for (size_t i = 0; i < row.size(); ++i) {
            text += " " + padded(row[i], widths[i], i < sides.size() && sides[i] == '>');
            if (i + 1 < row.size()) text += ' ';
        }
        line(text.substr(0, text.find_last_not_of(' ') + 1));
    }
}

}  // namespace nvllm::view
