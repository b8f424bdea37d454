// What each field means.
#include "lib/server/openai/conversation_rows.h"

#include "lib/request/sampling_fields.h"

namespace nvllm::server {
namespace {

using namespace schema;

constexpr uint8_t kMessage = 32, kMessageCount = 64, kResponse = 128;
constexpr uint8_t kBoth = kMessage | kMessageCount;
constexpr std::string_view kIdle = "Taken, and does nothing.";

using Parameters = std::vector<Parameter>;

// Of the Anthropic API.
void add_message_inputs(Parameters& table, const RequestLimits& limits) {
    const Json blocks = any_of({text(), list(object({{"type", text()}}))});
    table.insert(
        table.end(),
        {{"model", kBoth, text(), {}, "A name from /v1/models; when absent the first model."},
         {"messages",
          kBoth,
          list(object({{"role", values({"user", "assistant", "system"})}, {"content", blocks}}),
               static_cast<size_t>(limits.max_messages), 1),
          {},
          "The conversation: texts, or blocks of type text, thinking, tool_use and tool_result. "
          "The answer goes on from a last message of the assistant.",
          kBoth},
         {"system", kBoth, blocks, {}, "What is said before the conversation."},
         {"max_tokens",
          kMessage,
          integer(1, kUnboundedCount),
          {},
          "Tokens to generate at most.",
          kMessage},
         {"stop_sequences", kMessage, list(text()), {}, "Texts at which the answer ends."},
         {"stream", kMessage, boolean(), false, "The answer as server-sent events."},
         {"temperature", kMessage, number(0.0f, 2.0f), {}, "As for chats."},
         {"top_p", kMessage, number(0.0f, 1.0f), {}, "As for chats."},
         {"top_k", kMessage, integer(-1, kUnboundedCount), {}, "As for chats."},
         {"tools",
          kBoth,
          list(object({{"name", text()}}), static_cast<size_t>(limits.max_tools)),
          {},
          "Functions that the model may call, each with its input_schema."},
         {"tool_choice",
          kBoth,
          object({{"type", values({"auto", "any", "tool", "none"})}}),
          {},
          "Whether something is called; tool with the name of it. disable_parallel_tool_use: one "
          "call at most, where the answer is held to calls."},
         {"thinking",
          kBoth,
          object({{"type", values({"enabled", "disabled", "adaptive"})}}),
          {},
          "Given to the template as enable_thinking. budget_tokens does nothing."},
         {"output_config",
          kBoth,
          object(),
          {},
          "effort is given to the template; format holds the answer to a JSON schema."},
         {"output_format", kBoth, object(), {}, "output_config.format under its older name."},
         {"chat_template_kwargs",
          kBoth,
          template_variables(),
          {},
          "Further variables of the template."}});
}

// Of /v1/responses.
void add_response_inputs(Parameters& table, const RequestLimits& limits) {
    const Json items = list(object(), static_cast<size_t>(limits.max_messages));
    table.insert(
        table.end(),
        {{"model", kResponse, text(), {}, "A name from /v1/models; when absent the first model."},
         {"input",
          kResponse,
          any_of({text(), items}),
          {},
          "A text of the user, or items: message, function_call, function_call_output, reasoning, "
          "and item_reference with the id of an item of a kept response.",
          kResponse},
         {"instructions", kResponse, text(), {}, "What is said before the conversation."},
         {"previous_response_id",
          kResponse,
          text(),
          {},
          "A kept response that this one goes on from; its instructions are not."},
         {"store", kResponse, boolean(), true,
          "Keep the response for previous_response_id and GET, as long as there is room."},
         {"max_output_tokens",
          kResponse,
          integer(1, kUnboundedCount),
          {},
          "Tokens to generate at most, reasoning among them."},
         {"temperature", kResponse, number(0.0f, 2.0f), {}, "As for chats."},
         {"top_p", kResponse, number(0.0f, 1.0f), {}, "As for chats."},
         {"stream", kResponse, boolean(), false, "The answer as server-sent events."},
         {"tools",
          kResponse,
          list(object({{"type", values({"function"})}, {"name", text()}}),
               static_cast<size_t>(limits.max_tools)),
          {},
          "Functions that the model may call."},
         {"tool_choice",
          kResponse,
          any_of({values({"none", "auto", "required"}), object()}),
          {},
          "As for chats; a function as {\"type\": \"function\", \"name\": NAME}, and allowed_tools "
          "with mode and tools in itself."},
         {"parallel_tool_calls", kResponse, boolean(), true, "As for chats."}});
}

// Of the same, besides the conversation and its tools.
void add_response_settings(Parameters& table) {
    table.insert(
        table.end(),
        {{"text",
          kResponse,
          object(),
          {},
          "format: text, json_object, or json_schema with name and schema."},
         {"reasoning",
          kResponse,
          object(),
          {},
          "effort is given to the template; the reasoning is always in the answer, not a summary."},
         {"metadata", kResponse, object(), {}, "Returned as it is."},
         {"truncation",
          kResponse,
          values({"auto", "disabled"}),
          {},
          "Does nothing: a conversation that does not fit is refused."},
         {"background", kResponse, values({false}), {}, "Only false."},
         {"chat_template_kwargs",
          kResponse,
          template_variables(),
          {},
          "Further variables of the template."}});
}

}  // namespace

void add_message_rows(Parameters& table, const RequestLimits& limits) {
    add_message_inputs(table, limits);
    for (const char* name : {"metadata", "service_tier", "cache_control", "container",
                             "inference_geo", "context_management", "betas"}) {
        table.push_back({name, kBoth, anything(), {}, kIdle, 0, ParameterUse::no_effect});
    }
    for (const char* name :
         {"max_tokens", "stop_sequences", "stream", "temperature", "top_p", "top_k"}) {
        table.push_back({name, kMessageCount, anything(), {}, kIdle, 0, ParameterUse::no_effect});
    }
    table.push_back({"mcp_servers",
                     kBoth,
                     values({"", false, Json::array(), Json::object()}),
                     {},
                     "this server never asks another one",
                     0,
                     ParameterUse::not_built});
}

void add_response_rows(Parameters& table, const RequestLimits& limits) {
    add_response_inputs(table, limits);
    add_response_settings(table);
    for (const char* name :
         {"include", "user", "safety_identifier", "service_tier", "prompt_cache_key",
          "prompt_cache_retention", "stream_options", "max_tool_calls", "client_metadata"}) {
        table.push_back({name, kResponse, anything(), {}, kIdle, 0, ParameterUse::no_effect});
    }
    for (const char* name : {"conversation", "prompt", "top_logprobs", "context_management"}) {
        table.push_back({name,
                         kResponse,
                         values({"", false, Json::array(), Json::object()}),
                         {},
                         "this server does not have it",
                         0,
                         ParameterUse::not_built});
    }
}

Json template_variables() {
    Json json = object();
    json["propertyNames"] = Json::parse(R"({"not": {"enum": ["messages", "chat_template"]}})");
    return json;
}

}  // namespace nvllm::server
