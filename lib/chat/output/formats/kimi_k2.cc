// kimi_k2: a section of calls, each "functions.NAME:INDEX" (its id), a marker and its arguments.
// Source: the chat template and the tool call guidance of Kimi-K2.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

constexpr std::string_view kKimiCall = "<|tool_call_begin|>";
constexpr size_t kMaxKimiId = 256;

// "functions.lamp.dim:0" is the function "lamp.dim".
std::string name_in(std::string_view id) {
    constexpr std::string_view kPrefix = "functions.";
    const size_t index = id.find_last_not_of("0123456789");
    const bool has_index = index != std::string_view::npos && index + 1 < id.size();
    if (has_index && id[index] == ':') id = id.substr(0, index);
    if (id.starts_with(kPrefix)) id.remove_prefix(kPrefix.size());
    return std::string(trimmed(id));
}

Reading<bool> read_kimi_call(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    in.skip(kKimiCall.size());
    std::string word;
    const bool named = co_await read_until(in, "<|tool_call_argument_begin|>", word, kMaxKimiId);
    if (!named) co_return false;
    const std::string id(trimmed(word));
    const std::string name = name_in(id);
    if (name.empty()) co_return false;
    sink.begin(id, name);
    const bool read = co_await read_json_arguments(in, sink);
    if (!read) co_return false;
    const bool more = co_await skip_space(in);
    const bool ended = co_await in.take("<|tool_call_end|>");
    co_return !more || ended;
}

}  // namespace

ToolCallFormat kimi_k2_format() {
    ToolCallFormat format;
    format.section_begins = {"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"};
    format.section_ends = {"<|tool_calls_section_end|>", "<|tool_call_section_end|>"};
    format.call_begins = {kKimiCall};
    format.read_calls = read_kimi_call;
    return format;
}

}  // namespace nvllm::output
