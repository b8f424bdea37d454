// phi4_mini_json: functools[{"name": ..., "arguments": {...}}, ...], or the list between tokens.
// Source: the chat template and the model card of Phi-4-mini.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

constexpr std::string_view kPhiCall = "<|tool_call|>";

Reading<bool> read_phi4_calls(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    const bool token = co_await in.take(kPhiCall);
    if (token) co_await skip_space(in);
    const bool word = co_await in.take("functools");
    const bool more = co_await skip_space(in);
    if (!(token || word) || !more || in.peek() != '[') co_return false;
    const bool found = co_await read_bare_json_calls(in, sink);
    co_return found;
}

}  // namespace

ToolCallFormat phi4_mini_json_format() {
    ToolCallFormat format;
    format.section_ends = {"<|/tool_call|>"};
    format.call_begins = {"functools", kPhiCall};
    format.read_calls = read_phi4_calls;
    return format;
}

}  // namespace nvllm::output
