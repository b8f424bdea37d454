// Reads calls that are JSON; gives their arguments as the bytes that the model wrote.
#include "lib/chat/output/json_calls.h"

#include <algorithm>
#include <array>

#include "lib/chat/output/json_text.h"

namespace nvllm::output {
namespace {

// Keys with which an object that is a call may begin.
constexpr std::array<std::string_view, 6> kCallKeys = {"name",     "arguments", "parameters",
                                                       "function", "type",      "id"};

std::optional<FoundCall> call_in_object(std::string_view json, int depth) {
    FoundCall call;
    std::optional<std::string> arguments;
    for (const JsonMember& member : json_members(json)) {
        if (member.key == "name") call.name = json_string(member.value).value_or("");
        if (member.key == "arguments" || (member.key == "parameters" && !arguments))
            arguments = arguments_object(member.value);
        if (member.key == "id") call.id = json_string(member.value).value_or("");
        if (member.key != "function" || depth > 0) continue;
        if (auto name = json_string(member.value)) {
            call.name = *name;
        } else if (member.value.front() == '{') {
            return call_in_object(member.value, depth + 1);
        }
    }
    if (call.name.empty() || !arguments) return std::nullopt;
    call.arguments = *arguments;
    return call;
}

// Whether an object of a call seems to come: its first key is one of a call's.
Reading<bool> seems_json_call(TextReader& in) {
    bool more = co_await skip_space(in);
    const bool list = co_await in.take("[");
    if (list) more = co_await skip_space(in);
    const bool object = co_await in.take("{");
    if (!object) co_return false;
    more = co_await skip_space(in);
    const bool quote = co_await in.take("\"");
    if (!quote || !more) co_return false;
    std::string key;
    const bool closed = co_await read_until(in, "\"", key, 10);
    co_return closed&& std::find(kCallKeys.begin(), kCallKeys.end(), key) != kCallKeys.end();
}

}  // namespace

std::optional<std::string> arguments_object(std::string_view json) {
    json = trimmed(json);
    if (json == "null") return "{}";
    if (json.starts_with("{")) return std::string(json);
    const auto text = json_string(json);
    if (!text || !trimmed(*text).starts_with("{") || !is_json(*text)) return std::nullopt;
    return std::string(trimmed(*text));
}

FoundCalls calls_in_json(std::string_view json) {
    json = trimmed(json);
    std::vector<FoundCall> calls;
    if (json.starts_with("{")) {
        if (auto call = call_in_object(json, 0)) return FoundCalls({*std::move(call)});
        return std::nullopt;
    }
    for (const JsonMember& element : json_members(json)) {
        auto call =
            element.value.starts_with("{") ? call_in_object(element.value, 0) : std::nullopt;
        if (!call) return std::nullopt;
        calls.push_back(*std::move(call));
    }
    if (calls.empty()) return std::nullopt;
    return calls;
}

Reading<FoundCalls> read_json_calls(TextReader& in, std::string_view begin, std::string_view end) {
    std::vector<FoundCall> calls;
    while (true) {
        bool more = co_await skip_space(in);
        if (!more) break;
        const bool closed = co_await in.take(end);
        if (closed) break;
        const size_t position = in.position();
        const bool next = co_await in.take(begin);
        if (next) {
            in.rewind(position);
            break;
        }
        const auto json = co_await read_json(in);
        if (!json) co_return std::nullopt;
        auto found = calls_in_json(*json);
        if (!found) co_return std::nullopt;
        for (FoundCall& call : *found) calls.push_back(std::move(call));
    }
    if (calls.empty()) co_return std::nullopt;
    co_return calls;
}

Reading<FoundCalls> read_bare_json_calls(TextReader& in) {
    const size_t start = in.position();
    const bool likely = co_await seems_json_call(in);
    if (!likely) co_return std::nullopt;
    in.rewind(start);
    const auto json = co_await read_json(in);
    if (!json) co_return std::nullopt;
    co_return calls_in_json(*json);
}

Reading<std::optional<std::string>> read_json_arguments(TextReader& in) {
    const bool more = co_await skip_space(in);
    if (!more || in.peek() != '{') co_return std::nullopt;
    auto json = co_await read_json(in);
    co_return json;
}

}  // namespace nvllm::output
