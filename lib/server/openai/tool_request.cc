// Reading tools and choices.
#include "lib/server/openai/tool_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/server/openai/parameters.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

// What other kinds of tools there are is done by OpenAI's own servers.
std::optional<Fault> check_kind(const Json& tool, size_t index) {
    const Json type = tool.is_object() ? tool.value("type", Json()) : Json();
    if (type == Json("function")) return std::nullopt;
    const std::string field = fmt::format("tools[{}].type", index);
    if (!type.is_string()) return field_fault(field, "must be \"function\"");
    return unsupported_field(field, fmt::format("is '{}', but only functions can be called here",
                                                type.get<std::string>().substr(0, 64)));
}

// Null and absence mean false.
Result<bool> read_strict(const Json& tool, size_t index) {
    const Json& function = tool.contains("function") ? tool["function"] : tool;
    const Json strict = function.value("strict", Json());
    if (strict.is_null()) return false;
    if (strict.is_boolean()) return strict.get<bool>();
    return field_fault(fmt::format("tools[{}].function.strict", index), "must be true or false");
}

std::optional<Fault> read_tools(const Json& tools, const RequestLimits& limits,
                                ToolRequest& request) {
    if (auto fault = check_tools(tools, limits)) return fault;
    for (size_t i = 0; i < tools.size(); ++i) {
        if (auto fault = check_kind(tools[i], i)) return fault;
    }
    auto offered = read_offered_tools(tools);
    if (!offered) return offered.fault();
    for (size_t i = 0; i < tools.size(); ++i) {
        if ((*offered)[i].name.empty())
            return field_fault(fmt::format("tools[{}].function.name", i), "is empty");
        const auto strict = read_strict(tools[i], i);
        if (!strict) return strict.fault();
        request.is_strict = request.is_strict || *strict;
    }
    request.offered = *std::move(offered);
    return std::nullopt;
}

// {"type": "function", "function": {"name": NAME}}, or with the name beside the type.
Result<std::string> named_function(const Json& choice) {
    const auto wrong = field_fault("tool_choice",
                                   "must be none, auto, required, {\"type\": \"function\", "
                                   "\"function\": {\"name\": NAME}}, or allowed_tools");
    if (!choice.is_object() || choice.value("type", Json()) != Json("function")) return wrong;
    const Json& function = choice.contains("function") ? choice["function"] : choice;
    const Json name = function.is_object() ? function.value("name", Json()) : Json();
    if (!name.is_string()) return wrong;
    return name.get<std::string>();
}

Fault not_offered(const std::string& field, const std::string& name) {
    return field_fault(field, fmt::format("names the function '{}', which 'tools' does not have",
                                          name.substr(0, 64)));
}

// {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}, or with mode and tools
// beside the type.
std::optional<Fault> read_allowed(const Json& choice, ToolRequest& request) {
    const Json& allowed = choice.contains("allowed_tools") ? choice["allowed_tools"] : choice;
    const Json mode = allowed.is_object() ? allowed.value("mode", Json()) : Json();
    const Json tools = allowed.is_object() ? allowed.value("tools", Json()) : Json();
    const bool is_required = mode == Json("required");
    if ((!is_required && mode != Json("auto")) || !tools.is_array() || tools.empty()) {
        return field_fault("tool_choice",
                           "of type allowed_tools needs a mode, auto or required, and tools");
    }
    std::set<std::string> names;
    for (const Json& tool : tools) {
        auto name = named_function(tool);
        if (!name) return name.fault();
        const bool is_offered = std::ranges::any_of(
            request.offered, [&](const OfferedTool& one) { return one.name == *name; });
        if (!is_offered) return not_offered("tool_choice", *name);
        names.insert(*std::move(name));
    }
    request.use = is_required ? ToolUse::required : ToolUse::automatic;
    request.callable = request.offered;
    std::erase_if(request.callable,
                  [&](const OfferedTool& tool) { return !names.contains(tool.name); });
    return std::nullopt;
}

std::optional<Fault> read_choice(const Json& choice, ToolRequest& request) {
    const bool has_tools = !request.offered.empty();
    if (choice.is_null() || choice == Json("auto") || choice == Json("none")) {
        const bool is_none = !has_tools || choice == Json("none");
        request.use = is_none ? ToolUse::none : ToolUse::automatic;
        return choose_tool("", "tool_choice", request);
    }
    if (!has_tools) return field_fault("tool_choice", "needs 'tools'");
    if (choice.is_object() && choice.value("type", Json()) == Json("allowed_tools"))
        return read_allowed(choice, request);
    std::string name;
    if (choice != Json("required")) {
        auto named = named_function(choice);
        if (!named) return named.fault();
        name = *std::move(named);
    }
    request.use = ToolUse::required;
    return choose_tool(name, "tool_choice", request);
}

}  // namespace

std::optional<Fault> check_tools(const Json& tools, const RequestLimits& limits) {
    if (!tools.is_array()) return field_fault("tools", "must be a list");
    if (tools.size() <= static_cast<size_t>(limits.max_tools)) return std::nullopt;
    return field_fault("tools", fmt::format("has {} entries; it must have at most {}", tools.size(),
                                            limits.max_tools));
}

std::optional<Fault> choose_tool(const std::string& name, const std::string& field,
                                 ToolRequest& request) {
    request.callable = request.offered;
    if (name.empty()) return std::nullopt;
    std::erase_if(request.callable, [&](const OfferedTool& tool) { return tool.name != name; });
    if (!request.callable.empty()) return std::nullopt;
    return not_offered(field, name);
}

Result<ToolRequest> read_tool_request(const ToolFields& fields, const RequestLimits& limits) {
    ToolRequest request;
    if (!fields.tools.is_null()) {
        if (auto fault = read_tools(fields.tools, limits, request)) return *fault;
    }
    if (!fields.parallel.is_null()) {
        if (!fields.parallel.is_boolean())
            return field_fault("parallel_tool_calls", "must be true or false");
        request.several_calls = fields.parallel.get<bool>();
    }
    if (auto fault = read_choice(fields.choice, request)) return *fault;
    return request;
}

}  // namespace nvllm::server
