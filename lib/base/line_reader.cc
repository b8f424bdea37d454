// Polls and splits.
#include "lib/base/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr size_t kReadBytes = size_t{1} << 16;
constexpr int kPollMs = 100;

}  // namespace

LineReader::LineReader(int descriptor, std::string name, size_t max_line_bytes)
    : descriptor_(descriptor), name_(std::move(name)), max_line_bytes_(max_line_bytes) {}

std::optional<std::string> LineReader::next(const std::function<bool()>& stop) {
    while (true) {
        const size_t end = buffer_.find('\n', searched_);
        if (end != std::string::npos) {
            std::string line = buffer_.substr(begin_, end - begin_);
            begin_ = searched_ = end + 1;
            if (!line.empty() && line.back() == '\r') line.pop_back();
            return line;
        }
        searched_ = buffer_.size();
        if (buffer_.size() - begin_ > max_line_bytes_) {
            throw Error(ErrorKind::bad_data, name_ + ": a line is longer than " +
                                                 std::to_string(max_line_bytes_) + " bytes");
        }
        if (!fill(stop)) break;
    }
    if (!ended_ || begin_ == buffer_.size()) return std::nullopt;
    std::string line = buffer_.substr(begin_);
    begin_ = searched_ = buffer_.size();
    return line;
}

std::string LineReader::rest(const std::function<bool()>& stop) {
    while (fill(stop)) {
    }
    std::string text = buffer_.substr(begin_);
    begin_ = searched_ = buffer_.size();
    return text;
}

bool LineReader::fill(const std::function<bool()>& stop) {
    if (begin_ > 0) {
        buffer_.erase(0, begin_);
        searched_ -= begin_;
        begin_ = 0;
    }
    while (!ended_ && !stop()) {
        pollfd ready{descriptor_, POLLIN, 0};
        const int count = ::poll(&ready, 1, kPollMs);
        if (count == 0 || (count < 0 && errno == EINTR)) continue;
        const size_t had = buffer_.size();
        buffer_.resize(had + kReadBytes);
        const ssize_t got = ::read(descriptor_, buffer_.data() + had, kReadBytes);
        const int error = errno;
        buffer_.resize(had + (got > 0 ? static_cast<size_t>(got) : 0));
        if (got > 0) return true;
        if (got == 0) {
            ended_ = true;
        } else if (error != EINTR && error != EAGAIN) {
            throw Error(ErrorKind::io, name_ + ": cannot read: " + std::strerror(error));
        }
    }
    return false;
}

}  // namespace nvllm
