// minimax_m2: a section <minimax:tool_call> of <invoke name="NAME"> with <parameter name="KEY">.
// Source: the chat template and the tool calling guide of MiniMax-M2.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/tagged_calls.h"

namespace nvllm::output {
namespace {

constexpr TaggedCallForm kMiniMaxForm = {.call_begin = "<invoke name=\"",
                                         .name_end = "\">",
                                         .parameter_begin = "<parameter name=\"",
                                         .key_end = "\">",
                                         .value_end = "</parameter>",
                                         .call_end = "</invoke>",
                                         .line_breaks = TaggedCallForm::LineBreaks::form_if_both};

Reading<bool> read_minimax_call(TextReader& in, const ParameterTypes& types, CallSink& sink) {
    const bool found = co_await read_tagged_call(in, kMiniMaxForm, types, sink);
    co_return found;
}

}  // namespace

ToolCallFormat minimax_m2_format() {
    ToolCallFormat format;
    format.section_begins = {"<minimax:tool_call>"};
    format.section_ends = {"</minimax:tool_call>"};
    format.call_begins = {kMiniMaxForm.call_begin};
    format.only_in_section = true;
    format.read_calls = read_minimax_call;
    return format;
}

}  // namespace nvllm::output
