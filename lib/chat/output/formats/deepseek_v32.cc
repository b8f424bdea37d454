// deepseek_v32: a section of <｜DSML｜invoke name="NAME"> with parameters that say themselves
// whether they are text. Source: the encoding of DeepSeek-V3.2 (encoding_dsv32.py) and of
// DeepSeek-V4.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/tagged_calls.h"

namespace nvllm::output {
namespace {

constexpr TaggedCallForm kDsmlForm = {.call_begin = "<｜DSML｜invoke name=\"",
                                      .name_end = "\">",
                                      .parameter_begin = "<｜DSML｜parameter name=\"",
                                      .key_end = "\"",
                                      .attributes_end = ">",
                                      .value_end = "</｜DSML｜parameter>",
                                      .call_end = "</｜DSML｜invoke>"};

Reading<bool> read_dsml_call(TextReader& in, const ParameterTypes& types, CallSink& sink) {
    const bool found = co_await read_tagged_call(in, kDsmlForm, types, sink);
    co_return found;
}

}  // namespace

ToolCallFormat deepseek_v32_format() {
    ToolCallFormat format;
    format.section_begins = {"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"};
    format.section_ends = {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"};
    format.call_begins = {kDsmlForm.call_begin};
    format.read_calls = read_dsml_call;
    return format;
}

}  // namespace nvllm::output
