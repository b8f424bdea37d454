// phi4_mini_json: functools[{"name": ..., "arguments": {...}}, ...].
// Source: the chat template of Phi-4-mini.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

Reading<FoundCalls> read_phi4_calls(TextReader& in, const ParameterTypes& /*types*/) {
    const bool marker = co_await in.take("functools");
    const bool more = co_await skip_space(in);
    if (!marker || !more || in.peek() != '[') co_return std::nullopt;
    auto calls = co_await read_bare_json_calls(in);
    co_return calls;
}

}  // namespace

ToolCallFormat phi4_mini_json_format() {
    ToolCallFormat format;
    format.call_begins = {"functools"};
    format.read_calls = read_phi4_calls;
    return format;
}

}  // namespace nvllm::output
