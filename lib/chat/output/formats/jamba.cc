// jamba: <tool_calls>[{"name": ..., "arguments": {...}}, ...]</tool_calls>.
// Source: the chat template of Jamba 1.5.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

Reading<bool> read_jamba_calls(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    in.skip(std::string_view("<tool_calls>").size());
    const bool found = co_await read_json_calls(in, "<tool_calls>", "</tool_calls>", sink);
    co_return found;
}

}  // namespace

ToolCallFormat jamba_format() {
    ToolCallFormat format;
    format.call_begins = {"<tool_calls>"};
    format.read_calls = read_jamba_calls;
    return format;
}

}  // namespace nvllm::output
