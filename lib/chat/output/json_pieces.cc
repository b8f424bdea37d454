// Follows the members of calls in JSON.
#include "lib/chat/output/json_pieces.h"

#include <utility>

namespace nvllm::output {
namespace {

// Between the quotes of a JSON string; empty where they hold no text.
std::string text_of(const std::string& written) {
    const std::string json = '"' + written + '"';
    return is_json(json) ? json_string(json).value_or("") : "";
}

}  // namespace

void JsonCallPieces::read(char c, const JsonScanner& scanner) {
    const bool was_in_string = std::exchange(in_string_, scanner.in_string());
    if (is_left_) return;
    if (call_depth_ == 0) call_depth_ = c == '[' ? 2 : 1;
    const size_t depth = scanner.depth();
    if (place_ == Place::arguments) {
        read_arguments(c, was_in_string, depth);
    } else if (was_in_string) {
        if (in_string_) {
            string_ += c;
        } else if (depth == call_depth_) {
            end_string();
        }
    } else if (in_string_) {
        string_.clear();
        is_left_ = depth == call_depth_ && place_ == Place::value && is_arguments_key();
    } else if (depth == call_depth_) {
        read_in_call(c);
    } else if (depth == call_depth_ + 1 && place_ == Place::value && is_arguments_key()) {
        is_left_ = c != '{' || !has_name_ || has_arguments_;
        if (is_left_) return;
        place_ = Place::arguments;
        sink_.arguments("{");
    } else if (depth + 1 == call_depth_ && c == '}') {
        end_call();
    }
}

void JsonCallPieces::read_arguments(char c, bool is_text, size_t depth) {
    sink_.arguments({&c, 1});
    if (is_text || c != '}' || depth != call_depth_) return;
    sink_.end();
    has_arguments_ = true;
    place_ = Place::key;
    key_.clear();
}

void JsonCallPieces::read_in_call(char c) {
    if (c == ',') {
        place_ = Place::key;
        key_.clear();
    } else if (c == ':') {
        place_ = Place::value;
    } else if (place_ == Place::value && is_arguments_key() && !is_space(c)) {
        is_left_ = true;  // null
    }
}

void JsonCallPieces::end_string() {
    if (place_ == Place::key) {
        key_ = text_of(string_);
    } else if (key_ == "id") {
        id_ = text_of(string_);
    } else if (key_ == "name" && !has_name_) {
        std::string name = text_of(string_);
        has_name_ = !name.empty();
        if (has_name_) sink_.begin(std::exchange(id_, {}), std::move(name));
    }
}

void JsonCallPieces::end_call() {
    if (has_arguments_) ++num_given_;
    is_left_ = !has_arguments_;
    has_name_ = has_arguments_ = false;
    place_ = Place::key;
    key_.clear();
    id_.clear();
}

}  // namespace nvllm::output
