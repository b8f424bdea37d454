// hermes: <tool_call>{"name": ..., "arguments": {...}}</tool_call>, one for each call.
// Source: the chat templates of Hermes 2 Pro, Qwen2.5 and Qwen3.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

Reading<bool> read_hermes_calls(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    in.skip(std::string_view("<tool_call>").size());
    const bool found = co_await read_json_calls(in, "<tool_call>", "</tool_call>", sink);
    co_return found;
}

}  // namespace

ToolCallFormat hermes_format() {
    ToolCallFormat format;
    format.call_begins = {"<tool_call>"};
    format.read_calls = read_hermes_calls;
    return format;
}

}  // namespace nvllm::output
