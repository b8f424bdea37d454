// pythonic: [name(key='value', ...), ...], between <|python_start|> and <|python_end|> or not.
// Source: the model cards of Llama 3.2 and Llama 4.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/python_text.h"

namespace nvllm::output {
namespace {

constexpr std::string_view kPythonStart = "<|python_start|>";

Reading<FoundCalls> read_pythonic_calls(TextReader& in, const ParameterTypes& /*types*/) {
    const bool marker = co_await in.take(kPythonStart);
    if (marker) co_await skip_space(in);
    auto calls = co_await read_python_calls(in);
    if (!calls || !marker) co_return calls;
    const size_t end = in.position();
    co_await skip_space(in);
    const bool closed = co_await in.take("<|python_end|>");
    if (!closed) in.rewind(end);
    co_return calls;
}

}  // namespace

ToolCallFormat pythonic_format() {
    ToolCallFormat format;
    format.call_begins = {kPythonStart, "["};
    format.read_calls = read_pythonic_calls;
    return format;
}

}  // namespace nvllm::output
