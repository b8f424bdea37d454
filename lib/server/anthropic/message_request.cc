// Writes the body as one of a chat, which says the same in other words, and reads that.
#include "lib/server/anthropic/message_request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/server/anthropic/message_blocks.h"
#include "lib/server/openai/parameters.h"

namespace nvllm::server::anthropic {
namespace {

using Json = nlohmann::ordered_json;

// Fields that both know, under the name of a chat.
constexpr std::pair<const char*, const char*> kSame[] = {
    {"model", "model"},
    {"max_tokens", "max_tokens"},
    {"temperature", "temperature"},
    {"top_p", "top_p"},
    {"top_k", "top_k"},
    {"stop_sequences", "stop"},
    {"stream", "stream"},
    {"chat_template_kwargs", "chat_template_kwargs"}};

std::optional<Fault> read_tools(const Json& tools, const RequestLimits& limits, Json& chat,
                                std::vector<std::string>& ignored) {
    if (tools.is_null()) return std::nullopt;
    if (auto fault = check_tools(tools, limits)) return fault;
    Json functions = Json::array();
    for (size_t i = 0; i < tools.size(); ++i) {
        auto function = function_of_tool(tools[i], fmt::format("tools[{}]", i), ignored);
        if (!function) return function.fault();
        functions.push_back(*std::move(function));
    }
    chat["tools"] = std::move(functions);
    return std::nullopt;
}

std::optional<Fault> read_choice(const Json& choice, Json& chat) {
    if (choice.is_null()) return std::nullopt;
    const Json type = choice.is_object() ? choice.value("type", Json()) : Json();
    if (type == Json("auto") || type == Json("none")) {
        chat["tool_choice"] = type;
    } else if (type == Json("any")) {
        chat["tool_choice"] = "required";
    } else if (type == Json("tool") && choice.value("name", Json()).is_string()) {
        chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", choice["name"]}}}};
    } else {
        return field_fault("tool_choice",
                           "must be {\"type\": \"auto\"}, any, none, or tool with a name");
    }
    const Json alone = choice.value("disable_parallel_tool_use", Json());
    if (alone.is_boolean()) chat["parallel_tool_calls"] = !alone.get<bool>();
    if (alone.is_null() || alone.is_boolean()) return std::nullopt;
    return field_fault("tool_choice.disable_parallel_tool_use", "must be true or false");
}

std::optional<Fault> read_thinking(const Json& thinking, Json& chat,
                                   std::vector<std::string>& ignored) {
    if (thinking.is_null()) return std::nullopt;
    const Json type = thinking.is_object() ? thinking.value("type", Json()) : Json();
    const bool is_on = type == Json("enabled") || type == Json("adaptive");
    if (!is_on && type != Json("disabled"))
        return field_fault("thinking.type", "must be enabled, disabled or adaptive");
    chat["enable_thinking"] = is_on;
    name_others(thinking, {"type", "display", "budget_tokens"}, "thinking", ignored);
    if (thinking.value("display", Json()) == Json("omitted")) chat["include_reasoning"] = false;
    const Json budget = thinking.value("budget_tokens", Json());
    if (budget.is_null()) return std::nullopt;
    if (!budget.is_number_integer() || budget < 1)
        return field_fault("thinking.budget_tokens", "must be an integer of at least 1");
    ignored.emplace_back("thinking.budget_tokens");
    return std::nullopt;
}

// {"type": "json_schema", "schema": ...}
std::optional<Fault> read_format(const Json& format, const char* field, Json& chat) {
    if (format.is_null()) return std::nullopt;
    const bool is_schema = format.is_object() && format.value("type", Json()) == "json_schema" &&
                           format.contains("schema");
    if (!is_schema) return field_fault(field, "must be of type json_schema, with a schema");
    chat["response_format"] = {
        {"type", "json_schema"},
        {"json_schema", {{"name", "answer"}, {"schema", format["schema"]}, {"strict", true}}}};
    return std::nullopt;
}

// {"effort": ..., "format": ...}
std::optional<Fault> read_output(const Json& output, Json& chat,
                                 std::vector<std::string>& ignored) {
    if (output.is_null()) return std::nullopt;
    if (!output.is_object()) return field_fault("output_config", "must be an object");
    name_others(output, {"effort", "format"}, "output_config", ignored);
    if (const Json effort = output.value("effort", Json()); !effort.is_null()) {
        chat["reasoning_effort"] = effort;
    }
    return read_format(output.value("format", Json()), "output_config.format", chat);
}

// What is said of the prompt, as fields of a chat.
std::optional<Fault> read_prompt(Json& body, const RequestLimits& limits, Json& chat,
                                 std::vector<std::string>& ignored) {
    auto messages =
        chat_messages(take_member(body, "system"), take_member(body, "messages"), limits, ignored);
    if (!messages) return messages.fault();
    chat["messages"] = *std::move(messages);
    const Json& last = chat["messages"].back();
    const bool is_begun = last["role"] == "assistant" && !last.contains("tool_calls");
    if (is_begun) {  // the answer goes on from it
        chat["continue_final_message"] = true;
        chat["add_generation_prompt"] = false;
    }
    if (auto fault = read_tools(take_member(body, "tools"), limits, chat, ignored)) return fault;
    if (auto fault = read_thinking(take_member(body, "thinking"), chat, ignored)) return fault;
    if (auto fault = read_output(take_member(body, "output_config"), chat, ignored)) return fault;
    const Json older = take_member(body, "output_format");
    if (!older.is_null() && chat.contains("response_format")) {
        return field_fault("output_format",
                           "is the older name of output_config.format: send one of them");
    }
    return read_format(older, "output_format", chat);
}

Fault renamed(Fault fault) {
    if (fault.field == "stop") fault.field = "stop_sequences";
    if (fault.field == "response_format") fault.field = "output_config.format";
    return fault;
}

}  // namespace

Result<GenerationRequest> read_message_request(Json body, const SamplingParams& defaults,
                                               const RequestLimits& limits) {
    auto ignored = take_idle_fields(body, CallKind::message, limits.is_strict);
    if (!ignored) return ignored.fault();
    const Json most = body.value("max_tokens", Json());
    if (!most.is_number_integer() || most < 1)
        return field_fault("max_tokens", "is needed: an integer of at least 1");
    Json chat = Json::object();
    if (auto fault = read_prompt(body, limits, chat, *ignored)) return *fault;
    if (auto fault = read_choice(take_member(body, "tool_choice"), chat)) return *fault;
    for (const auto& [name, name_of_chat] : kSame) {
        if (Json value = take_member(body, name); !value.is_null())
            chat[name_of_chat] = std::move(value);
    }
    auto request = read_chat_request(std::move(chat), defaults, limits);
    if (!request) return renamed(request.fault());
    request->ignored = *std::move(ignored);
    return request;
}

Result<ChatPrompt> read_message_prompt(Json body, const RequestLimits& limits,
                                       std::vector<std::string>& ignored) {
    auto idle = take_idle_fields(body, CallKind::message, limits.is_strict);
    if (!idle) return idle.fault();
    ignored = *std::move(idle);
    Json chat = Json::object();
    if (auto fault = read_prompt(body, limits, chat, ignored)) return *fault;
    for (const char* name : {"include_reasoning", "response_format"}) chat.erase(name);
    if (Json kwargs = take_member(body, "chat_template_kwargs"); !kwargs.is_null()) {
        chat["chat_template_kwargs"] = std::move(kwargs);
    }
    return read_chat_prompt(std::move(chat), limits);
}

}  // namespace nvllm::server::anthropic
