// Responses of /v1/responses as data, and the events of a stream. As in
// lib/server/openai/response_types.h each type lists its fields once.
#pragma once

#include <variant>

#include "lib/server/openai/response_types.h"

namespace nvllm::server::responses {

// JSON that the request has given.
struct AnyObject {
    template <typename Visit>
    void fields(Visit&) const {}
};
using ChoiceOfTools = std::variant<std::string, AnyObject>;

struct OutputText {
    Constant<"output_text"> type;
    std::string_view text;
    std::vector<AnyObject> annotations;
    std::vector<AnyObject> logprobs;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("text", text);
        visit("annotations", annotations);
        visit("logprobs", logprobs);
    }
};

struct ReasoningText {
    Constant<"reasoning_text"> type;
    std::string_view text;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("text", text);
    }
};
using OutputPart = std::variant<OutputText, ReasoningText>;

struct MessageItem {
    std::string_view id;
    Constant<"message"> type;
    Constant<"assistant"> role;
    std::string_view status;
    std::vector<OutputText> content;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("type", type);
        visit("role", role);
        visit("status", status);
        visit("content", content);
    }
};

struct FunctionCallItem {
    std::string_view id;
    Constant<"function_call"> type;
    std::string_view status;
    std::string_view call_id;
    std::string_view name;
    std::string_view arguments;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("type", type);
        visit("status", status);
        visit("call_id", call_id);
        visit("name", name);
        visit("arguments", arguments);
    }
};

struct ReasoningItem {
    std::string_view id;
    Constant<"reasoning"> type;
    std::string_view status;
    std::vector<AnyObject> summary;
    std::vector<ReasoningText> content;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("type", type);
        visit("status", status);
        visit("summary", summary);
        visit("content", content);
    }
};
using OutputItem = std::variant<MessageItem, FunctionCallItem, ReasoningItem>;

struct ResponseUsage {
    int64_t input_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t output_tokens = 0;
    int64_t reasoning_tokens = 0;
    template <Word kField>
    struct Detail {
        int64_t count = 0;
        template <typename Visit>
        void fields(Visit& visit) const {
            visit(kField.text, count);
        }
    };
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("input_tokens", input_tokens);
        visit("input_tokens_details", Detail<"cached_tokens">{cached_tokens});
        visit("output_tokens", output_tokens);
        visit("output_tokens_details", Detail<"reasoning_tokens">{reasoning_tokens});
        visit("total_tokens", input_tokens + output_tokens);
    }
};

struct Incomplete {
    std::string_view reason;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("reason", reason);
    }
};

struct ResponseError {
    std::string code;
    std::string_view message;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("code", code);
        visit("message", message);
    }
};

struct Response {
    static constexpr const char* kName = "Response";
    std::string_view id;
    Constant<"response"> object;
    int64_t created_at = 0;
    std::string_view status;
    std::optional<ResponseError> error;
    std::optional<Incomplete> incomplete_details;
    Written<std::optional<std::string>> instructions;
    std::optional<int64_t> max_output_tokens;
    Written<AnyObject> metadata;
    std::string_view model;
    std::vector<OutputItem> output;
    bool parallel_tool_calls = true;
    std::optional<std::string> previous_response_id;
    Written<AnyObject> reasoning;
    bool store = true;
    float temperature = 1.0f;
    Written<AnyObject> text;
    Written<ChoiceOfTools> tool_choice;
    Written<std::vector<AnyObject>> tools;
    float top_p = 1.0f;
    std::optional<ResponseUsage> usage;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("object", object);
        visit("created_at", created_at);
        visit("status", status);
        visit("background", false);
        visit("error", error);
        visit("incomplete_details", incomplete_details);
        visit("instructions", instructions);
        visit("max_output_tokens", max_output_tokens);
        visit("metadata", metadata);
        visit("model", model);
        visit("output", output);
        visit("parallel_tool_calls", parallel_tool_calls);
        visit("previous_response_id", previous_response_id);
        visit("reasoning", reasoning);
        visit("store", store);
        visit("temperature", temperature);
        visit("text", text);
        visit("tool_choice", tool_choice);
        visit("tools", tools);
        visit("top_p", top_p);
        visit("truncation", Constant<"disabled">{});
        visit("usage", usage);
    }
};

struct DeletedResponse {
    static constexpr const char* kName = "DeletedResponse";
    std::string_view id;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("object", Constant<"response">{});
        visit("deleted", true);
    }
};

struct InputTokenCount {
    static constexpr const char* kName = "ResponseInputTokenCount";
    size_t input_tokens = 0;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("object", Constant<"response.input_tokens">{});
        visit("input_tokens", input_tokens);
    }
};

// An event: its type, its number, and what it is about.
struct ResponseEvent {
    static constexpr const char* kName = "ResponseEvent";
    std::string_view type;
    int64_t sequence_number = 0;
    Maybe<Written<Response>> response;
    Maybe<std::string_view> item_id;
    Maybe<size_t> output_index;
    Maybe<size_t> content_index;
    Maybe<OutputItem> item;
    Maybe<OutputPart> part;
    Maybe<std::string_view> delta;
    Maybe<std::string_view> text;
    Maybe<std::string_view> arguments;
    Maybe<std::string_view> name;
    Maybe<std::vector<AnyObject>> logprobs;
    Maybe<std::string> code;
    Maybe<std::string_view> message;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("sequence_number", sequence_number);
        visit("response", response);
        visit("item_id", item_id);
        visit("output_index", output_index);
        visit("content_index", content_index);
        visit("item", item);
        visit("part", part);
        visit("delta", delta);
        visit("text", text);
        visit("arguments", arguments);
        visit("name", name);
        visit("logprobs", logprobs);
        visit("code", code);
        visit("message", message);
    }
};

}  // namespace nvllm::server::responses
