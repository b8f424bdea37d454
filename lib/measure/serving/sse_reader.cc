// Lines to events.
#include "lib/measure/serving/sse_reader.h"

#include "kernels/error.h"

namespace nvllm {

void SseReader::feed(std::string_view bytes, const std::function<void(std::string_view)>& event) {
    for (const char c : bytes) {
        const bool completes_return = after_return_ && c == '\n';
        after_return_ = c == '\r';
        if (completes_return) continue;
        if (c == '\n' || c == '\r') {
            const std::string line = std::move(line_);
            line_.clear();
            take_line(line, event);
            continue;
        }
        line_.push_back(c);
        if (line_.size() + data_.size() > kMaxEventBytes) {
            throw Error(ErrorKind::bad_data, "the server sent an event that does not end");
        }
    }
}

void SseReader::take_line(std::string_view line,
                          const std::function<void(std::string_view)>& event) {
    if (line.empty()) {
        if (has_data_) event(data_);
        data_.clear();
        has_data_ = false;
        return;
    }
    if (!line.starts_with("data:")) return;
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
}

}  // namespace nvllm
