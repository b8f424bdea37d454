// granite: <|tool_call|>[{"name": ..., "arguments": {...}}, ...], with <tool_call> in version 3.0,
// or the bare list as the whole answer.
// Source: the chat templates of Granite 3.0 to 3.3.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

Reading<bool> read_granite_calls(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    if (in.peek() == '[' || in.peek() == '{') {
        const bool found = co_await read_bare_json_calls(in, sink);
        co_return found;
    }
    for (bool marker = true; marker;) {
        co_await skip_space(in);
        marker = co_await in.take("<|tool_call|>");
        if (!marker) marker = co_await in.take("<tool_call>");
    }
    const bool found = co_await read_calls(in, sink);
    co_return found;
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
