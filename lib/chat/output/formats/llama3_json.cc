// llama3_json: {"name": ..., "parameters": {...}}, after <|python_tag|> or not; several with "; "
// between them.
// Source: the model card of Llama 3.1 and the chat templates of Llama 3.1 to 4.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

Reading<bool> read_llama_calls(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    co_await in.take("<|python_tag|>");
    co_await skip_space(in);
    const bool found = co_await read_bare_json_calls(in, sink);
    co_return found;
}

}  // namespace

ToolCallFormat llama3_json_format() {
    ToolCallFormat format;
    format.call_begins = {"<|python_tag|>", "{", "["};
    format.separators = ";,";
    format.read_calls = read_llama_calls;
    return format;
}

}  // namespace nvllm::output
