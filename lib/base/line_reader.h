// Lines from a file descriptor as they come, without blocking a program that has to stop.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace nvllm {

// Does not own the descriptor. Not thread-safe.
class LineReader {
  public:
    // Lines longer than `max_line_bytes` are an error; `name` is for messages.
    LineReader(int descriptor, std::string name, size_t max_line_bytes = size_t{64} << 20);

    // The next line without its end (a last line needs none); nothing at the end of input, or when
    // `stop` returns true, which is called at least every tenth of a second. Throws io or bad_data
    // (a line too long).
    std::optional<std::string> next(const std::function<bool()>& stop);
    // Everything that is left. As above.
    std::string rest(const std::function<bool()>& stop);

  private:
    // Reads more into the buffer; false at the end or when stopped.
    bool fill(const std::function<bool()>& stop);

    int descriptor_;
    std::string name_;
    size_t max_line_bytes_;
    std::string buffer_;
    size_t begin_ = 0;     // of the next line in the buffer
    size_t searched_ = 0;  // no line end before this place
    bool ended_ = false;
};

}  // namespace nvllm
