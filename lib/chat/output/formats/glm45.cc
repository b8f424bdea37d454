// glm45: <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>...</tool_call>, with
// line breaks between the tags or, from GLM-4.7 on, without. Source: the chat templates of GLM-4.5
// to GLM-4.7.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/tagged_calls.h"

namespace nvllm::output {
namespace {

constexpr TaggedCallForm kGlmForm = {.call_begin = "<tool_call>",
                                     .name_end = "",
                                     .parameter_begin = "<arg_key>",
                                     .key_end = "</arg_key>",
                                     .value_begin = "<arg_value>",
                                     .value_end = "</arg_value>",
                                     .call_end = "</tool_call>",
                                     .call_end_may_be_missing = true};

Reading<bool> read_glm_call(TextReader& in, const ParameterTypes& types, CallSink& sink) {
    const bool found = co_await read_tagged_call(in, kGlmForm, types, sink);
    co_return found;
}

}  // namespace

ToolCallFormat glm45_format() {
    ToolCallFormat format;
    format.call_begins = {kGlmForm.call_begin};
    format.read_calls = read_glm_call;
    return format;
}

}  // namespace nvllm::output
