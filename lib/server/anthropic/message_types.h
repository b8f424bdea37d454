// Responses of the Anthropic API as data: a message, whole and in events. As in
// lib/server/openai/response_types.h each lists its fields once.
#pragma once

#include <variant>

#include "lib/server/openai/response_types.h"

namespace nvllm::server::anthropic {

struct AnyObject {
    template <typename Visit>
    void fields(Visit&) const {}
};

struct TextBlock {
    Constant<"text"> type;
    std::string_view text;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("text", text);
    }
};

struct ThinkingBlock {
    Constant<"thinking"> type;
    std::string_view thinking;
    std::string_view signature;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("thinking", thinking);
        visit("signature", signature);
    }
};

struct ToolUseBlock {
    Constant<"tool_use"> type;
    std::string_view id;
    std::string_view name;
    Written<AnyObject> input;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("id", id);
        visit("name", name);
        visit("input", input);
    }
};

using Block = std::variant<TextBlock, ThinkingBlock, ToolUseBlock>;

struct MessageUsage {
    static constexpr const char* kName = "MessageUsage";
    int64_t input_tokens = 0;  // without those of the cache
    int64_t cache_read_input_tokens = 0;
    int64_t output_tokens = 0;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("input_tokens", input_tokens);
        visit("cache_creation_input_tokens", int64_t{0});
        visit("cache_read_input_tokens", cache_read_input_tokens);
        visit("output_tokens", output_tokens);
    }
};

// Why the message ended, and at which of stop_sequences.
struct Stop {
    std::optional<std::string_view> reason;
    std::optional<std::string> sequence;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("stop_reason", reason);
        visit("stop_sequence", sequence);
    }
};

struct Message {
    static constexpr const char* kName = "Message";
    std::string_view id;
    Constant<"message"> type;
    Constant<"assistant"> role;
    std::string_view model;
    std::vector<Block> content;
    Stop stop;
    MessageUsage usage;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("type", type);
        visit("role", role);
        visit("model", model);
        visit("content", content);
        stop.fields(visit);
        visit("usage", usage);
    }
};

struct TokenCount {
    static constexpr const char* kName = "MessageTokenCount";
    size_t input_tokens = 0;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("input_tokens", input_tokens);
    }
};

// --- Events ---

struct MessageStart {
    Constant<"message_start"> type;
    Message message;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("message", message);
    }
};

struct Ping {
    Constant<"ping"> type;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
    }
};

struct BlockStart {
    Constant<"content_block_start"> type;
    size_t index = 0;
    Block content_block;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("index", index);
        visit("content_block", content_block);
    }
};

// What is new of a block; `kField` names it.
template <Word kKind, Word kField>
struct PieceDelta {
    Constant<kKind> type;
    std::string_view piece;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit(kField.text, piece);
    }
};
using TextDelta = PieceDelta<"text_delta", "text">;
using ThinkingDelta = PieceDelta<"thinking_delta", "thinking">;
using SignatureDelta = PieceDelta<"signature_delta", "signature">;
using InputDelta = PieceDelta<"input_json_delta", "partial_json">;

struct BlockDelta {
    Constant<"content_block_delta"> type;
    size_t index = 0;
    std::variant<TextDelta, ThinkingDelta, SignatureDelta, InputDelta> delta;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("index", index);
        visit("delta", delta);
    }
};

struct BlockStop {
    Constant<"content_block_stop"> type;
    size_t index = 0;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("index", index);
    }
};

struct MessageDelta {
    Constant<"message_delta"> type;
    Stop delta;
    MessageUsage usage;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("delta", delta);
        visit("usage", usage);
    }
};

struct MessageStop {
    Constant<"message_stop"> type;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
    }
};

// The data of an event.
struct MessageEvent {
    static constexpr const char* kName = "MessageEvent";
    using Any = std::variant<MessageStart, Ping, BlockStart, BlockDelta, BlockStop, MessageDelta,
                             MessageStop, responses::AnthropicError>;
};

}  // namespace nvllm::server::anthropic
