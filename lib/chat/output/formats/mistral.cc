// mistral: [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...], and from version 11 of its
// tokenizers on [TOOL_CALLS]name[ARGS]{...} or [TOOL_CALLS]name{...} for each call, with
// [CALL_ID]id after the name in between.
// Source: mistral-common, instruct tokenizers v2 to v13.
#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

constexpr std::string_view kMistralCalls = "[TOOL_CALLS]";
constexpr size_t kMaxMistralWord = 256;

// A name, or an id: up to the arguments or to the next marker.
Reading<bool> read_word(TextReader& in, std::string& word) {
    bool more = co_await in.has(1);
    while (more && word.size() < kMaxMistralWord && in.peek() != '{' && in.peek() != '[') {
        word += in.peek();
        in.skip(1);
        more = co_await in.has(1);
    }
    word = trimmed(word);
    const bool one_word = word.find_first_of(" \n\t\r<>\"") == std::string::npos;
    co_return more && !word.empty() && one_word;
}

Reading<bool> read_named_call(TextReader& in, CallSink& sink) {
    std::string name;
    std::string id;
    const bool named = co_await read_word(in, name);
    if (!named) co_return false;
    const bool has_id = co_await in.take("[CALL_ID]");
    if (has_id) {
        const bool read = co_await read_word(in, id);
        if (!read) co_return false;
    }
    sink.begin(id, name);
    co_await in.take("[ARGS]");
    const bool read = co_await read_json_arguments(in, sink);
    co_return read;
}

Reading<bool> read_mistral_calls(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    in.skip(kMistralCalls.size());
    const bool more = co_await skip_space(in);
    if (!more) co_return false;
    if (in.peek() == '[' || in.peek() == '{') {
        const bool found = co_await read_calls(in, sink);
        co_return found;
    }
    const bool found = co_await read_named_call(in, sink);
    co_return found;
}

}  // namespace

ToolCallFormat mistral_format() {
    ToolCallFormat format;
    format.section_ends = {"[/TOOL_CALLS]"};
    format.call_begins = {kMistralCalls};
    format.read_calls = read_mistral_calls;
    return format;
}

}  // namespace nvllm::output
