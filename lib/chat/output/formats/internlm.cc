// internlm: <|action_start|><|plugin|>{"name": ..., "parameters": {...}}<|action_end|>.
// Source: the chat format of InternLM2 and InternLM2.5 (agent/lagent.md, chat/chat_format.md).
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

constexpr std::string_view kActionStart = "<|action_start|>";

Reading<bool> read_internlm_call(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    in.skip(kActionStart.size());
    co_await skip_space(in);
    const bool plugin = co_await in.take("<|plugin|>");  // others run code
    if (!plugin) co_return false;
    const bool found = co_await read_json_calls(in, kActionStart, "<|action_end|>", sink);
    co_return found;
}

}  // namespace

ToolCallFormat internlm_format() {
    ToolCallFormat format;
    format.call_begins = {kActionStart};
    format.read_calls = read_internlm_call;
    return format;
}

}  // namespace nvllm::output
