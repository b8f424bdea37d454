// Scans JSON in generated text; its exact bytes are what clients are given.
#include "lib/chat/output/json_text.h"

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/json.h"

namespace nvllm::output {
namespace {

constexpr size_t kMaxJsonDepth = 60;
// What may stand outside of strings: numbers, true, false, null.
constexpr std::string_view kScalarBytes = "0123456789+-.eEtrufalsn";

size_t string_length(std::string_view text) {
    for (size_t i = 1; i < text.size(); ++i) {
        if (text[i] == '\\') {
            ++i;
        } else if (text[i] == '"') {
            return i + 1;
        }
    }
    return text.size();
}

// The length of the value at the start of `text`, which is valid JSON up to there.
size_t value_length(std::string_view text) {
    if (text.front() == '"') return string_length(text);
    if (text.front() != '{' && text.front() != '[') {
        return std::min(text.size(), text.find_first_of(",]} \n\r\t"));
    }
    JsonScanner scanner;
    for (size_t i = 0; i < text.size(); ++i) {
        if (scanner.feed(text[i]) != JsonScanner::State::more) return i + 1;
    }
    return text.size();
}

// Reads a value from the front of `rest`, with the white space and the comma or colon after it.
std::string_view take_value(std::string_view& rest) {
    rest = trimmed(rest);
    const std::string_view value = rest.substr(0, value_length(rest));
    rest = trimmed(rest.substr(value.size()));
    if (!rest.empty() && (rest.front() == ',' || rest.front() == ':')) rest.remove_prefix(1);
    return value;
}

nlohmann::json parse_bounded(std::string_view text) {
    JsonLimits limits;
    limits.allow_duplicate_keys = true;
    return parse_json(text, "arguments", limits);
}

}  // namespace

JsonScanner::State JsonScanner::feed_string(char c) {
    if (static_cast<unsigned char>(c) < 0x20) return State::broken;
    if (escaped_) {
        escaped_ = false;
    } else if (c == '\\') {
        escaped_ = true;
    } else if (c == '"') {
        in_string_ = false;
    }
    return State::more;
}

JsonScanner::State JsonScanner::close(char open) {
    if (open_.empty() || open_.back() != open) return State::broken;
    open_.pop_back();
    return open_.empty() ? State::done : State::more;
}

JsonScanner::State JsonScanner::feed(char c) {
    if (in_string_) return feed_string(c);
    if (c == '{' || c == '[') {
        open_ += c;
        return open_.size() > kMaxJsonDepth ? State::broken : State::more;
    }
    if (open_.empty()) return State::broken;
    if (c == '}') return close('{');
    if (c == ']') return close('[');
    if (c == '"') in_string_ = true;
    const bool known = c == '"' || c == ',' || c == ':' || is_space(c) ||
                       kScalarBytes.find(c) != std::string::npos;
    return known ? State::more : State::broken;
}

bool is_json(std::string_view text) {
    try {
        parse_bounded(text);
        return true;
    } catch (const Error&) {
        return false;
    }
}

std::vector<JsonMember> json_members(std::string_view text) {
    text = trimmed(text);
    std::vector<JsonMember> members;
    if (text.empty() || (text.front() != '{' && text.front() != '[')) return members;
    const bool object = text.front() == '{';
    std::string_view rest = trimmed(text.substr(1, text.size() - 2));
    while (!rest.empty()) {
        std::string key;
        if (object) key = json_string(take_value(rest)).value_or("");
        members.push_back({std::move(key), take_value(rest)});
        rest = trimmed(rest);
    }
    return members;
}

std::optional<std::string> json_string(std::string_view text) {
    text = trimmed(text);
    if (text.empty() || text.front() != '"') return std::nullopt;
    return parse_bounded(text).get<std::string>();
}

}  // namespace nvllm::output
