// Bytes as an answer in any format: what is found does not depend on the cuts, and nothing is lost.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/chat/output/output_parser.h"
#include "lib/chat/output/tool_grammar.h"

namespace {

using namespace nvllm;

const std::vector<OfferedTool> kTools = {
    {"f", R"({"properties": {"a": {"type": "number"}, "b": {"type": ["string", "null"]}}})"}};

// The first byte chooses the formats, the second how the text is cut.
OutputDelta parsed(const OutputFormat& format, const HeldCalls& held, std::string_view text,
                   size_t piece) {
    auto parser = make_output_parser(format, {kTools, "", held});
    OutputDelta all;
    for (size_t at = 0; at < text.size(); at += piece)
        all.merge(parser->push(text.substr(at, piece)));
    all.merge(parser->finish());
    return all;
}

void demand(bool holds) {
    if (!holds) std::abort();
}

// Reads it whole and cut, the same way; the whole.
OutputDelta read(const OutputFormat& format, const HeldCalls& held, std::string_view text,
                 size_t piece) {
    OutputDelta whole = parsed(format, held, text, text.size() + 1);
    const OutputDelta cut = parsed(format, held, text, piece);
    demand(whole.content == cut.content && whole.reasoning == cut.reasoning);
    demand(whole.tool_calls.size() == cut.tool_calls.size());
    for (size_t i = 0; i < whole.tool_calls.size(); ++i) {
        demand(whole.tool_calls[i].name == cut.tool_calls[i].name);
        demand(whole.tool_calls[i].arguments == cut.tool_calls[i].arguments);
    }
    return whole;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
    const auto& tools = tool_format_rows();
    const auto& reasoning = reasoning_format_rows();
    OutputFormat format;
    format.tools = tools[data[0] % tools.size()].name;
    if (data[1] & 0x80) format.reasoning = reasoning[data[0] / 8 % reasoning.size()].name;
    const OutputDelta whole = read(format, {}, text, 1 + data[1] % 8);
    const ToolChoice choice = data[1] & 0x40 ? ToolChoice::required : ToolChoice::automatic;
    read(format, held_calls(ToolGrammarRequest{format.tools, kTools, choice}), text,
         1 + data[1] % 8);
    const bool marks_only_calls = format.reasoning.empty() && format.tools != "openai";
    if (marks_only_calls && whole.tool_calls.empty()) demand(whole.content == text);
    return 0;
}
