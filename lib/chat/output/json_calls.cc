// Reads calls that are JSON; gives their arguments as the bytes that the model wrote.
#include "lib/chat/output/json_calls.h"

#include <algorithm>
#include <array>

#include "lib/chat/output/json_pieces.h"
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

// The calls that `json` (valid JSON) is: none where it is something else.
std::vector<FoundCall> calls_in_json(std::string_view json) {
    json = trimmed(json);
    std::vector<FoundCall> calls;
    if (json.starts_with("{")) {
        if (auto call = call_in_object(json, 0)) calls.push_back(*std::move(call));
        return calls;
    }
    for (const JsonMember& element : json_members(json)) {
        auto call =
            element.value.starts_with("{") ? call_in_object(element.value, 0) : std::nullopt;
        if (!call) return {};
        calls.push_back(*std::move(call));
    }
    return calls;
}

// Gives the calls that `json` is, besides those that were begun already.
bool give_calls(const std::string& json, size_t num_begun, CallSink& sink) {
    if (!is_json(json)) return false;
    std::vector<FoundCall> calls = calls_in_json(json);
    for (size_t i = 0; i < calls.size(); ++i) {
        if (i >= num_begun) {
            sink.call(std::move(calls[i]));
        } else if (i + 1 == num_begun && sink.in_call()) {
            sink.arguments(calls[i].arguments);
            sink.end();
        }
    }
    return !calls.empty();
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

// Reads an object or list that begins here, well-formed as JsonScanner sees it. `read_byte` is told
// of every byte that the scanner has read. Empty where it is neither, or is cut off.
template <typename ReadByte>
Reading<std::string> read_json(TextReader& in, ReadByte read_byte) {
    JsonScanner scanner;
    std::string text;
    while (true) {
        const bool some = co_await in.has(1);
        if (!some) co_return "";
        const char c = in.peek();
        const JsonScanner::State state = scanner.feed(c);
        if (state == JsonScanner::State::broken) co_return "";
        text += c;
        in.skip(1);
        read_byte(c, scanner);
        if (state == JsonScanner::State::done) co_return text;
    }
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

Reading<bool> read_calls(TextReader& in, CallSink& sink) {
    co_await skip_space(in);
    const size_t num_before = sink.num_calls();
    JsonCallPieces pieces(sink);
    const std::string json = co_await read_json(in, [&](char c, const JsonScanner& scanner) {
        if (sink.is_held()) pieces.read(c, scanner);
    });
    if (json.empty()) co_return false;
    // Then it is what a grammar allowed: it may have numbers that no program can hold.
    if (pieces.has_given_all()) co_return true;
    co_return give_calls(json, sink.num_calls() - num_before, sink);
}

Reading<bool> read_json_calls(TextReader& in, std::string_view begin, std::string_view end,
                              CallSink& sink) {
    while (true) {
        const bool more = co_await skip_space(in);
        if (!more) break;
        const bool closed = co_await in.take(end);
        if (closed) break;
        const size_t position = in.position();
        const bool next = co_await in.take(begin);
        if (next) {
            in.rewind(position);
            break;
        }
        const bool found = co_await read_calls(in, sink);
        if (!found) co_return false;
    }
    co_return sink.num_calls() > 0;
}

Reading<bool> read_bare_json_calls(TextReader& in, CallSink& sink) {
    const size_t start = in.position();
    const bool likely = co_await seems_json_call(in);
    if (!likely) co_return false;
    in.rewind(start);
    const bool found = co_await read_calls(in, sink);
    co_return found;
}

Reading<bool> read_json_arguments(TextReader& in, CallSink& sink) {
    const bool more = co_await skip_space(in);
    if (!more || in.peek() != '{') co_return false;
    const std::string json = co_await read_json(in, [&](char c, const JsonScanner&) {
        sink.arguments({&c, 1});
    });
    if (json.empty() || (!sink.is_held() && !is_json(json))) co_return false;
    sink.end();
    co_return true;
}

}  // namespace nvllm::output
