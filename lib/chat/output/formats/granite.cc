// granite: <|tool_call|>[{"name": ..., "arguments": {...}}, ...], with <tool_call> in version 3.0,
// or the bare list as the whole answer.
// Source: the chat templates of Granite 3.0 to 3.3.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"
#include "lib/chat/output/json_text.h"

namespace nvllm::output {
namespace {

Reading<FoundCalls> read_granite_calls(TextReader& in, const ParameterTypes& /*types*/) {
    if (in.peek() == '[' || in.peek() == '{') {
        auto calls = co_await read_bare_json_calls(in);
        co_return calls;
    }
    for (bool marker = true; marker;) {
        co_await skip_space(in);
        marker = co_await in.take("<|tool_call|>");
        if (!marker) marker = co_await in.take("<tool_call>");
    }
    const auto json = co_await read_json(in);
    if (!json) co_return std::nullopt;
    co_return calls_in_json(*json);
}

}  // namespace

ToolCallFormat granite_format() {
    ToolCallFormat format;
    format.section_ends = {"</tool_call>"};  // Granite 4 closes what it opened
    format.call_begins = {"<|tool_call|>", "<tool_call>"};
    format.first_call_begins = {"["};
    format.read_calls = read_granite_calls;
    return format;
}

}  // namespace nvllm::output
