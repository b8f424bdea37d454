// Control characters that a terminal shows and does not obey.
#include "lib/cli/terminal_text.h"

#include <doctest/doctest.h>

namespace nvllm {
namespace {

TEST_CASE("text stays as it is, controls are shown") {
    struct Row {
        std::string text, shown;
    };
    for (const Row& row : {
             Row{"", ""},
             Row{"two lines\n\tof text", "two lines\n\tof text"},
             Row{"größer 日本 🙂", "größer 日本 🙂"},
             Row{"\x1b[2J\x1b]0;title\a", "^[[2J^[]0;title^G"},
             Row{"over\rwritten\b\b", "over^Mwritten^H^H"},
             Row{std::string("a\0b\x7f", 4), "a^@b^?"},
             Row{"\xc2\x9b"
                 "2J",
                 "<U+009B>2J"},
             Row{"\x9b"
                 "2J \xff",
                 "\uFFFD2J \uFFFD"},
             Row{"\xc2\xa0", "\xc2\xa0"},
         }) {
        CHECK(shown_on_terminal(row.text) == row.shown);
    }
}

TEST_CASE("pieces may end within a character") {
    const std::string text = "ä\x1b[m\xc2\x85🙂\xf0\x9f";
    for (size_t size = 1; size <= text.size(); ++size) {
        TerminalText terminal;
        std::string shown;
        for (size_t at = 0; at < text.size(); at += size) {
            shown += terminal.shown(text.substr(at, size));
        }
        CHECK(shown == "ä^[[m<U+0085>🙂");
        CHECK(terminal.rest() == "\uFFFD");
        CHECK(terminal.rest().empty());
    }
}

}  // namespace
}  // namespace nvllm
