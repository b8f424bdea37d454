// Server-sent events from pieces of a stream, as they come.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace nvllm {

// Lines end with LF, CR or CRLF, wherever the pieces are cut; the data lines of an event are joined
// by line breaks; comments and other fields are passed over (WHATWG HTML, section 9.2). Not
// thread-safe.
class SseReader {
  public:
    // Events longer than this end the stream.
    static constexpr size_t kMaxEventBytes = size_t{16} << 20;

    // Calls `event` with the data of every event that is complete. Throws bad_data for one that is
    // too long.
    void feed(std::string_view bytes, const std::function<void(std::string_view)>& event);

  private:
    void take_line(std::string_view line, const std::function<void(std::string_view)>& event);

    std::string line_;
    std::string data_;
    bool has_data_ = false;
    bool after_return_ = false;  // the last byte was CR: an LF belongs to it
};

}  // namespace nvllm
