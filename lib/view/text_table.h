// Text for people in a terminal: labelled lines and small tables, aligned, 80 columns wide.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nvllm::view {

class TextSheet {
  public:
    // A line of its own, as it is.
    void line(std::string_view text);
    // An empty line, unless the sheet is empty.
    void gap();
    // "label             value": the value wrapped at spaces and aligned.
    void row(std::string_view label, std::string_view value);
    // Columns as wide as their widest cell, indented. `sides` has a '<' or '>' a column: which side
    // cells keep to.
    void table(const std::vector<std::vector<std::string>>& rows, const std::string& sides);

    const std::string& text() const { return text_; }

  private:
    std::string text_;
};

// `text` cut into lines of at most `width` bytes at spaces; longer words stay whole.
std::vector<std::string> wrapped(std::string_view text, size_t width);

// `text` with everything that could move a terminal's cursor as \xNN.
std::string printable(std::string_view text);

}  // namespace nvllm::view
