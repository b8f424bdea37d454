// qwen3_coder:
// <tool_call><function=NAME><parameter=KEY>VALUE</parameter>...</function></tool_call>, each tag on
// a line of its own; the outer tags may be missing. seed_oss: the same in tags of its own. Source:
// the chat templates of Qwen3-Coder, Qwen3.5 and Seed-OSS.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/tagged_calls.h"

namespace nvllm::output {
namespace {

constexpr TaggedCallForm kFunctionForm = {.call_begin = "<function=",
                                          .name_end = ">",
                                          .parameter_begin = "<parameter=",
                                          .key_end = ">",
                                          .value_end = "</parameter>",
                                          .call_end = "</function>",
                                          .line_breaks = TaggedCallForm::LineBreaks::form,
                                          .value_end_may_be_missing = true};

Reading<bool> read_function(TextReader& in, const ParameterTypes& types, CallSink& sink) {
    const bool found = co_await read_tagged_call(in, kFunctionForm, types, sink);
    co_return found;
}

ToolCallFormat format_in(std::string_view begin, std::string_view end) {
    ToolCallFormat format;
    format.section_begins = {begin};
    format.section_ends = {end};
    format.call_begins = {kFunctionForm.call_begin};
    format.read_calls = read_function;
    return format;
}

}  // namespace

ToolCallFormat qwen3_coder_format() { return format_in("<tool_call>", "</tool_call>"); }

ToolCallFormat seed_oss_format() { return format_in("<seed:tool_call>", "</seed:tool_call>"); }

}  // namespace nvllm::output
