// Reads the tools of a request.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/chat/output/output_parser.h"

namespace nvllm {
namespace {

using ToolJson = nlohmann::ordered_json;

Fault tool_fault(size_t index, const std::string& field, const char* what) {
    const std::string position = fmt::format("tools[{}]{}", index, field);
    return Fault{ErrorKind::bad_data, position + ": " + what, position};
}

Result<OfferedTool> read_tool(const ToolJson& tool, size_t index) {
    if (tool.is_string()) return OfferedTool{tool.get<std::string>(), ""};
    if (!tool.is_object())
        return tool_fault(index, "", "must be an object or the name of a function");
    const bool wrapped = tool.contains("function");
    const ToolJson& function = wrapped ? tool.at("function") : tool;
    const std::string at = wrapped ? ".function" : "";
    if (!function.is_object()) return tool_fault(index, at, "must be an object");
    if (!function.contains("name") || !function.at("name").is_string())
        return tool_fault(index, at + ".name", "must be the name of the function");
    OfferedTool offered{function.at("name").get<std::string>(), ""};
    for (const char* key : {"parameters", "input_schema"}) {
        if (!function.contains(key) || function.at(key).is_null()) continue;
        if (!function.at(key).is_object())
            return tool_fault(index, at + "." + key, "must be a JSON schema, which is an object");
        offered.parameters = write_json(function.at(key));
    }
    return offered;
}

}  // namespace

Result<std::vector<OfferedTool>> read_offered_tools(const nlohmann::ordered_json& tools) {
    if (!tools.is_array())
        return Fault{ErrorKind::bad_data, "tools: must be a list of functions", "tools"};
    std::vector<OfferedTool> offered;
    for (const ToolJson& tool : tools) {
        auto read = read_tool(tool, offered.size());
        if (!read) return read.fault();
        offered.push_back(*std::move(read));
    }
    return offered;
}

}  // namespace nvllm
