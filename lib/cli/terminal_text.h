// Text from elsewhere as a terminal may show it: control characters are seen and do nothing.
//
// A terminal obeys escape sequences in whatever is written to it: they move the cursor, rename the
// window, and in some terminals type for the user. Shown are ^[ for ESC and the like, <U+009B> for
// the controls from U+0080 to U+009F, U+FFFD for what is no UTF-8; newlines and tabs stay.
#pragma once

#include <string>
#include <string_view>

namespace nvllm {

// For text that comes in pieces.
class TerminalText {
  public:
    // What can be shown by now; the beginning of an incomplete character is held back.
    std::string shown(std::string_view piece);
    // The text that was held back, at the end.
    std::string rest();

  private:
    std::string pending_;
};

// Of a whole text.
std::string shown_on_terminal(std::string_view text);

}  // namespace nvllm
