// Character by character.
#include "lib/cli/terminal_text.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/utf8.h"

namespace nvllm {
namespace {

// C0 and DEL, but for newline and tab.
bool is_caret_control(char32_t character) {
    return (character < 0x20 && character != '\n' && character != '\t') || character == 0x7F;
}

bool is_c1_control(char32_t character) { return character >= 0x80 && character < 0xA0; }

}  // namespace

std::string shown_on_terminal(std::string_view text) {
    std::string shown;
    while (!text.empty()) {
        const utf8::Decoded next = utf8::decode(text);
        if (is_caret_control(next.code_point)) {
            shown += {'^', static_cast<char>(next.code_point ^ 0x40)};
        } else if (is_c1_control(next.code_point)) {
            shown += fmt::format("<U+{:04X}>", static_cast<uint32_t>(next.code_point));
        } else {
            utf8::append(shown, next.code_point);
        }
        text.remove_prefix(next.length);
    }
    return shown;
}

std::string TerminalText::shown(std::string_view piece) {
    pending_ += piece;
    std::string text = std::exchange(pending_, {});
    const size_t whole = text.size() - utf8::incomplete_suffix(text);
    pending_ = text.substr(whole);
    text.resize(whole);
    return shown_on_terminal(text);
}

std::string TerminalText::rest() { return shown_on_terminal(std::exchange(pending_, {})); }

}  // namespace nvllm
