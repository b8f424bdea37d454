// pythonic: [name(key='value', ...), ...], between tokens of its own or not.
// Source: the model cards of Llama 3.2, Llama 4 and LFM2.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/python_text.h"

namespace nvllm::output {
namespace {

Reading<bool> read_pythonic_calls(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    const bool found = co_await read_python_calls(in, sink);
    co_return found;
}

}  // namespace

ToolCallFormat pythonic_format() {
    ToolCallFormat format;
    format.section_begins = {"<|python_start|>", "<|tool_call_start|>"};
    format.section_ends = {"<|python_end|>", "<|tool_call_end|>"};
    format.call_begins = {"["};
    format.read_calls = read_pythonic_calls;
    return format;
}

}  // namespace nvllm::output
