// One line is one text; whatever is wrong with it is its own fault.
#include "lib/view/output_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/base/utf8.h"

namespace nvllm::view {
namespace {

using OutputJson = nlohmann::ordered_json;

struct OutputLine {
    std::string text;
    OutputFormat format;
    OutputContext context;
};

std::string text_of(const OutputJson& line, const char* key) {
    const auto found = line.find(key);
    if (found == line.end() || found->is_null()) return {};
    if (!found->is_string())
        throw Error(ErrorKind::bad_data, fmt::format("\"{}\" must be a text", key));
    return found->get<std::string>();
}

// What the flags leave open is the line's.
OutputFormat format_of(const OutputFormat& flags, const OutputJson& line, bool has_tools) {
    OutputFormat format = flags;
    if (format.reasoning.empty()) format.reasoning = text_of(line, "reasoning");
    if (format.tools.empty()) format.tools = text_of(line, "format");
    if (!format.tools.empty() || !has_tools) return format;
    format.tools = format.reasoning == "openai_gptoss" ? "openai" : "json";
    return format;
}

OutputLine read_line(const OutputLineOptions& options, const std::string& line) {
    const OutputJson json = parse_ordered_json(line, "this line");
    if (!json.is_object() || !json.contains("text"))
        throw Error(ErrorKind::bad_data,
                    "this line is no object with a \"text\": {\"text\": ..., \"tools\": [...], "
                    "\"prompt_end\": ...}");
    OutputLine read;
    read.text = text_of(json, "text");
    read.context.prompt_end = text_of(json, "prompt_end");
    if (json.contains("tools") && !json.at("tools").is_null())
        read.context.tools = read_offered_tools(json.at("tools")).value_or_throw();
    for (OfferedTool& tool : read.context.tools) {
        const auto known = options.known_tools.find(tool.name);
        if (tool.parameters.empty() && known != options.known_tools.end()) tool = known->second;
    }
    read.format = format_of(options.format, json, !read.context.tools.empty());
    return read;
}

OutputDelta parsed(const OutputLine& line, bool one_character_at_a_time) {
    auto made = make_output_parser(line.format, line.context);
    OutputParser& parser = made.value_or_throw();
    OutputDelta all;
    if (!one_character_at_a_time) {
        all.merge(parser.push(line.text));
    } else {
        utf8::for_each(line.text, [&](char32_t /*code_point*/, size_t at, size_t length) {
            all.merge(parser.push(std::string_view(line.text).substr(at, length)));
        });
    }
    all.merge(parser.finish());
    return all;
}

std::string answer_json(const OutputDelta& output) {
    OutputJson calls = OutputJson::array();
    for (const ToolCallDelta& call : output.tool_calls)
        calls.push_back({{"name", call.name}, {"arguments", call.arguments}});
    OutputJson answer;
    answer["reasoning"] = nullptr;
    answer["content"] = nullptr;
    if (!output.reasoning.empty()) answer["reasoning"] = output.reasoning;
    if (!output.content.empty()) answer["content"] = output.content;
    answer["tool_calls"] = std::move(calls);
    return write_json(answer);
}

}  // namespace

std::map<std::string, OfferedTool> read_known_tools(std::string_view text,
                                                    const std::string& source_name) {
    const OutputJson json = parse_ordered_json(text, source_name);
    OutputJson list = OutputJson::array();
    if (json.is_object()) {
        for (const auto& item : json.items()) list.push_back(item.value());
    } else {
        list = json;
    }
    auto tools = read_offered_tools(list);
    if (!tools) throw Error(tools.fault().kind, source_name + ": " + tools.fault().message);
    std::map<std::string, OfferedTool> known;
    for (OfferedTool& tool : *tools) known[tool.name] = tool;
    return known;
}

LineAnswer output_line(const OutputLineOptions& options, const std::string& line) {
    try {
        return {answer_json(parsed(read_line(options, line), options.one_character_at_a_time)),
                std::nullopt};
    } catch (const Error& error) {
        return fault_answer(Fault{error.kind(), error.what()});
    }
}

}  // namespace nvllm::view
