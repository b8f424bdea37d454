// The loop that runs the coroutines of a TextReader, and the readings that all formats need.
#include "lib/chat/output/text_reader.h"

#include <algorithm>

namespace nvllm::output {

bool TextReader::Wait::decided() const {
    const std::string_view unread = in_.unread();
    if (in_.ended_) return true;
    if (literal_.empty()) return unread.size() >= bytes_;
    const size_t compared = std::min(unread.size(), literal_.size());
    return compared == literal_.size() ||
           unread.substr(0, compared) != literal_.substr(0, compared);
}

void TextReader::Wait::await_suspend(std::coroutine_handle<> waiting) {
    in_.waiting_ = waiting;
    in_.wait_ = this;
}

bool TextReader::Wait::await_resume() {
    const std::string_view unread = in_.unread();
    if (literal_.empty()) {
        const bool some = unread.size() >= bytes_;
        in_.met_end_ = in_.met_end_ || !some;
        return some;
    }
    if (!unread.starts_with(literal_)) {
        in_.met_end_ = in_.met_end_ || literal_.starts_with(unread);
        return false;
    }
    in_.skip(literal_.size());
    return true;
}

void TextReader::forget() {
    constexpr size_t kWorthMoving = 4096;
    if (next_ < kWorthMoving || next_ * 2 < text_.size()) return;
    text_.erase(0, next_);
    dropped_ += next_;
    next_ = 0;
}

void TextReader::push(std::string_view text) {
    text_.append(text);
    run();
}

void TextReader::end() {
    ended_ = true;
    run();
}

void TextReader::run() {
    while (true) {
        if (!runnable_ && wait_ != nullptr && wait_->decided()) {
            runnable_ = std::exchange(waiting_, nullptr);
            wait_ = nullptr;
        }
        if (!runnable_) return;
        std::exchange(runnable_, nullptr).resume();
    }
}

Reading<bool> skip_space(TextReader& in) {
    while (true) {
        const bool some = co_await in.has(1);
        if (!some) co_return false;
        if (!is_space(in.peek())) co_return true;
        in.skip(1);
    }
}

Reading<bool> read_until(TextReader& in, std::string_view end, std::string& before,
                         size_t max_bytes) {
    for (size_t read = 0; read <= max_bytes; ++read) {
        const bool some = co_await in.has(1);
        if (!some) co_return false;
        const bool found = co_await in.take(end);
        if (found) co_return true;
        before += in.peek();
        in.skip(1);
    }
    co_return false;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
}

}  // namespace nvllm::output
