// Puts the answer together; decides over white space beside markers.
#include "lib/chat/output/answer.h"

#include <utility>

namespace nvllm::output {

void TextChannel::append(std::string_view text, std::string& out) {
    if (drops_space_) {
        while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    }
    const size_t end = text.find_last_not_of(" \n\t\r") + 1;  // 0: only white space
    if (end == 0) {
        held_.append(text);
        return;
    }
    out += held_;
    out += text.substr(0, end);
    held_ = text.substr(end);
    begun_ = true;
    held_at_border_ = false;
    drops_space_ = false;
}

void TextChannel::border() {
    held_at_border_ = true;
    if (begun_) return;
    held_.clear();
    drops_space_ = true;
}

void TextChannel::separate() {
    border();
    held_ = begun_ ? "\n" : "";
    drops_space_ = true;
}

void TextChannel::finish(std::string& out) {
    if (!held_at_border_) out += held_;
    held_.clear();
}

void Answer::begin_call(std::string id, std::string name) {
    border();
    next_.tool_calls.push_back({num_calls_++, std::move(id), std::move(name), ""});
    in_call_ = true;
}

void Answer::call_arguments(std::string_view piece) {
    const size_t index = num_calls_ - 1;
    auto& calls = next_.tool_calls;
    if (calls.empty() || calls.back().index != index) calls.push_back({.index = index});
    calls.back().arguments += piece;
}

void Answer::end_call() { in_call_ = false; }

OutputDelta Answer::take() { return std::exchange(next_, {}); }

OutputDelta Answer::finish() {
    content_.finish(next_.content);
    reasoning_.border();
    reasoning_.finish(next_.reasoning);
    return take();
}

}  // namespace nvllm::output
