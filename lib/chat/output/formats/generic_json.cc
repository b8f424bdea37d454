// json: calls that are JSON, between the tags that several models use, in a fence, or bare.
#include <array>

#include "lib/chat/output/formats/tool_formats.h"
#include "lib/chat/output/json_calls.h"

namespace nvllm::output {
namespace {

struct Enclosure {
    std::string_view begin;
    std::string_view end;
};
constexpr std::array<Enclosure, 6> kEnclosures = {{{"<tool_call>", "</tool_call>"},
                                                   {"<tool_calls>", "</tool_calls>"},
                                                   {"<function_call>", "</function_call>"},
                                                   {"<|tool_call|>", "<|/tool_call|>"},
                                                   {"[TOOL_CALLS]", "[/TOOL_CALLS]"},
                                                   {"```json", "```"}}};

Reading<bool> read_generic_calls(TextReader& in, const ParameterTypes& /*types*/, CallSink& sink) {
    for (const Enclosure& enclosure : kEnclosures) {
        if (!in.unread().starts_with(enclosure.begin)) continue;
        in.skip(enclosure.begin.size());
        const bool found = co_await read_json_calls(in, enclosure.begin, enclosure.end, sink);
        co_return found;
    }
    const bool found = co_await read_bare_json_calls(in, sink);
    co_return found;
}

}  // namespace

ToolCallFormat generic_json_format() {
    ToolCallFormat format;
    for (const Enclosure& enclosure : kEnclosures) format.call_begins.push_back(enclosure.begin);
    format.call_begins.push_back("{");
    format.call_begins.push_back("[");
    format.separators = ";,";
    format.read_calls = read_generic_calls;
    return format;
}

}  // namespace nvllm::output
