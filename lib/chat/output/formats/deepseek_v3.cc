// deepseek_v3: a section of calls, each "function<sep>NAME" with its arguments in a fence of JSON;
// deepseek_v31: each "NAME<sep>{...}".
// Source: the chat templates of DeepSeek-R1-0528, DeepSeek-V3-0324 and DeepSeek-V3.1.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

constexpr std::string_view kDeepSeekSection = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kDeepSeekSectionEnd = "<｜tool▁calls▁end｜>";
constexpr std::string_view kDeepSeekCall = "<｜tool▁call▁begin｜>";
constexpr std::string_view kDeepSeekCallEnd = "<｜tool▁call▁end｜>";
constexpr std::string_view kDeepSeekSeparator = "<｜tool▁sep｜>";
constexpr size_t kMaxDeepSeekName = 256;

// The end of a call, which may be missing where the text ends.
Reading<bool> take_call_end(TextReader& in) {
    const bool more = co_await skip_space(in);
    if (!more) co_return true;
    const bool found = co_await in.take(kDeepSeekCallEnd);
    co_return found;
}

// The arguments of a call, after its name.
Reading<bool> read_arguments(TextReader& in, CallSink& sink, const std::string& name) {
    const std::string_view function = trimmed(name);
    if (function.empty()) co_return false;
    sink.begin("", std::string(function));
    const bool read = co_await read_json_arguments(in, sink);
    co_return read;
}

Reading<bool> read_fenced_call(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    in.skip(kDeepSeekCall.size());
    std::string type;
    std::string name;
    const bool typed = co_await read_until(in, kDeepSeekSeparator, type, kMaxDeepSeekName);
    if (!typed) co_return false;
    const bool named = co_await read_until(in, "```json", name, kMaxDeepSeekName);
    if (!named) co_return false;
    const bool read = co_await read_arguments(in, sink, name);
    if (!read) co_return false;
    co_await skip_space(in);
    const bool fence = co_await in.take("```");
    if (!fence && !in.ended()) co_return false;
    const bool ended = co_await take_call_end(in);
    co_return ended;
}

Reading<bool> read_plain_call(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    in.skip(kDeepSeekCall.size());
    std::string name;
    const bool named = co_await read_until(in, kDeepSeekSeparator, name, kMaxDeepSeekName);
    if (!named) co_return false;
    const bool read = co_await read_arguments(in, sink, name);
    if (!read) co_return false;
    const bool ended = co_await take_call_end(in);
    co_return ended;
}

ToolCallFormat section_format() {
    ToolCallFormat format;
    format.section_begins = {kDeepSeekSection};
    format.section_ends = {kDeepSeekSectionEnd};
    format.call_begins = {kDeepSeekCall};
    return format;
}

}  // namespace

ToolCallFormat deepseek_v3_format() {
    ToolCallFormat format = section_format();
    format.read_calls = read_fenced_call;
    return format;
}

ToolCallFormat deepseek_v31_format() {
    ToolCallFormat format = section_format();
    format.read_calls = read_plain_call;
    return format;
}

}  // namespace nvllm::output
