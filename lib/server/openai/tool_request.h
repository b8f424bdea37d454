// What a request says of tools: which functions there are, and which of them the model may or must
// call.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/chat/output/output_parser.h"
#include "lib/server/openai/request_limits.h"

namespace nvllm::server {

enum class ToolUse {
    none,       // nothing is called
    automatic,  // the model decides
    required,   // it calls one at least
};

struct ToolRequest {
    ToolUse use = ToolUse::none;
    std::vector<OfferedTool> offered = {};
    // Of a named choice only that one, of allowed_tools only those.
    std::vector<OfferedTool> callable = {};
    bool several_calls = true;
    bool is_strict = false;  // arguments have to fit, which some function says

    // Not all that the template shows may be called.
    bool is_narrowed() const { return callable.size() < offered.size(); }
};

// The fields as the OpenAI API has them, null where they are absent.
struct ToolFields {
    const nlohmann::ordered_json& tools;
    const nlohmann::ordered_json& choice;    // tool_choice
    const nlohmann::ordered_json& parallel;  // parallel_tool_calls
};

// Faults (bad_data) name the field: "tools[1].function.name", "tool_choice".
Result<ToolRequest> read_tool_request(const ToolFields& fields, const RequestLimits& limits);

// That there are not too many of them.
std::optional<Fault> check_tools(const nlohmann::ordered_json& tools, const RequestLimits& limits);

// Sets what may be called. `name` empty: all. `field` is named by a fault.
std::optional<Fault> choose_tool(const std::string& name, const std::string& field,
                                 ToolRequest& request);

}  // namespace nvllm::server
