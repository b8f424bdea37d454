// Calls on their way into the answer, at once or when all are whole.
#include "lib/chat/output/call_sink.h"

#include "lib/base/json.h"

namespace nvllm::output {

void CallSink::start(size_t position, bool is_held) {
    start_ = position;
    is_held_ = is_held;
    in_call_ = false;
    num_calls_ = 0;
    waiting_.clear();
}

void CallSink::begin(std::string id, std::string name) {
    ++num_calls_;
    in_call_ = true;
    if (is_held_) {
        answer_.begin_call(std::move(id), std::move(name));
    } else {
        waiting_.push_back({std::move(id), std::move(name), ""});
    }
}

void CallSink::arguments(std::string_view piece) {
    if (is_held_) {
        answer_.call_arguments(piece);
    } else {
        waiting_.back().arguments += piece;
    }
}

void CallSink::end() {
    in_call_ = false;
    if (is_held_) answer_.end_call();
}

void CallSink::call(FoundCall call) {
    begin(std::move(call.id), std::move(call.name));
    arguments(call.arguments);
    end();
}

void CallSink::commit() {
    positions_.push_back(start_);
    for (FoundCall& call : std::exchange(waiting_, {})) {
        answer_.begin_call(std::move(call.id), std::move(call.name));
        answer_.call_arguments(call.arguments);
        answer_.end_call();
    }
}

void ArgumentsWriter::begin_value(const std::string& name) {
    name_ = name;
    num_given_ = 0;
    if (!sink_.is_held()) return;
    sink_.arguments(has_begun_ ? ", " : "{");
    sink_.arguments(json_quoted(name) + ": ");
    has_begun_ = true;
}

void ArgumentsWriter::text_piece(std::string_view piece) {
    if (!sink_.is_held() || piece.empty()) return;
    std::string quoted = json_quoted(piece);
    quoted.pop_back();
    if (num_given_ > 0) quoted.erase(0, 1);
    sink_.arguments(quoted);
    num_given_ += quoted.size();
}

void ArgumentsWriter::end_value(std::string json) {
    if (sink_.is_held()) sink_.arguments(std::string_view(json).substr(num_given_));
    values_.set(name_, std::move(json));
}

void ArgumentsWriter::end() {
    if (!sink_.is_held()) {
        sink_.arguments(values_.json());
    } else {
        sink_.arguments(has_begun_ ? "}" : "{}");
    }
    sink_.end();
}

}  // namespace nvllm::output
