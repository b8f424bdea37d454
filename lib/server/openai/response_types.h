// Every response as data. Each type lists its fields once, in their order: its JSON is written from
// that list and its schema is made from it (response_fields.h), so neither can say what the other
// does not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace nvllm::server {

// A text that can be a template's argument.
template <size_t kSize>
struct Word {
    // NOLINTNEXTLINE(google-explicit-constructor): written as a literal.
    constexpr Word(const char (&given)[kSize]) { std::copy_n(given, kSize, text); }
    char text[kSize];
};

// A field that always has the same value.
template <Word kWord>
struct Constant {
    static constexpr std::string_view text() { return kWord.text; }
};

// Left out when it is empty; an empty std::optional is null.
template <typename T>
struct Maybe : std::optional<T> {
    using std::optional<T>::optional;
    using std::optional<T>::operator=;
};

// An object with any keys.
template <typename T>
using Keyed = std::vector<std::pair<std::string, T>>;

// JSON that was written from a T already.
template <typename T>
struct Written {
    std::string_view json;
};

// Shown no lower than -9999, which stands for "very unlikely" in the OpenAI API: JSON has no
// infinity.
struct Logprob {
    float value = 0.0f;
};

struct Usage {
    static constexpr const char* kName = "Usage";
    int64_t prompt_tokens = 0;
    int64_t completion_tokens = 0;
    int64_t cached_tokens = 0;  // of the prompt
    // Of the completion, where reasoning is told apart.
    Maybe<int64_t> reasoning_tokens = {};
    // Of the prompt behind those cached: keys and values were, but no state to go on from. Shown
    // where there are any.
    int64_t tokens_without_state = 0;

    struct CompletionDetails {
        int64_t reasoning_tokens = 0;
        template <typename Visit>
        void fields(Visit& visit) const {
            visit("reasoning_tokens", reasoning_tokens);
        }
    };
    struct Details {
        int64_t cached_tokens = 0;
        Maybe<int64_t> tokens_without_state;
        template <typename Visit>
        void fields(Visit& visit) const {
            visit("cached_tokens", cached_tokens);
            visit("tokens_without_state", tokens_without_state);
        }
    };
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("prompt_tokens", prompt_tokens);
        visit("completion_tokens", completion_tokens);
        visit("total_tokens", prompt_tokens + completion_tokens);
        Details of_prompt{cached_tokens, {}};
        if (tokens_without_state > 0) {
            of_prompt.tokens_without_state.emplace(tokens_without_state);
        }
        visit("prompt_tokens_details", of_prompt);
        Maybe<CompletionDetails> details;
        if (reasoning_tokens) details = CompletionDetails{*reasoning_tokens};
        visit("completion_tokens_details", details);
    }
};

struct PromptProgress {
    int64_t total = 0;      // prompt tokens
    int64_t cached = 0;     // of these, found in the cache
    int64_t processed = 0;  // of these, computed or found
    double time_ms = 0.0;   // since the request began to be computed

    bool operator==(const PromptProgress&) const = default;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("total", total);
        visit("cache", cached);
        visit("processed", processed);
        visit("time_ms", time_ms);
    }
};

namespace responses {

struct ErrorObject {
    std::string_view message;
    std::string type;
    std::optional<std::string> param;
    std::optional<std::string> code;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("message", message);
        visit("type", type);
        visit("param", param);
        visit("code", code);
    }
};

struct Error {
    static constexpr const char* kName = "Error";
    ErrorObject error;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("error", error);
    }
};

// As the Anthropic API has it.
struct AnthropicErrorObject {
    std::string_view type;
    std::string_view message;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("message", message);
    }
};

struct AnthropicError {
    static constexpr const char* kName = "AnthropicError";
    Constant<"error"> type;
    AnthropicErrorObject error;
    Maybe<std::string_view> request_id;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("type", type);
        visit("error", error);
        visit("request_id", request_id);
    }
};

// --- Completions and chats ---

struct CompletionLogprobs {
    static constexpr const char* kName = "CompletionLogprobs";
    std::vector<std::string> tokens;
    std::vector<std::optional<Logprob>> token_logprobs;
    std::vector<std::optional<Keyed<Logprob>>> top_logprobs;
    std::vector<size_t> text_offset;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("tokens", tokens);
        visit("token_logprobs", token_logprobs);
        visit("top_logprobs", top_logprobs);
        visit("text_offset", text_offset);
    }
};

struct TopLogprob {
    std::string token;
    Logprob logprob;
    std::vector<uint8_t> bytes;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("token", token);
        visit("logprob", logprob);
        visit("bytes", bytes);
    }
};

struct ChosenLogprob {
    TopLogprob chosen;
    std::vector<TopLogprob> top_logprobs;
    template <typename Visit>
    void fields(Visit& visit) const {
        chosen.fields(visit);
        visit("top_logprobs", top_logprobs);
    }
};

struct ChatLogprobs {
    static constexpr const char* kName = "ChatLogprobs";
    std::vector<ChosenLogprob> content;
    std::optional<std::string> refusal;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("content", content);
        visit("refusal", refusal);
    }
};

struct PromptLogprob {
    Logprob logprob;
    int32_t rank = 0;
    std::string decoded_token;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("logprob", logprob);
        visit("rank", rank);
        visit("decoded_token", decoded_token);
    }
};
// One of each prompt token, by token id; null for the first.
using PromptLogprobs = std::vector<std::optional<Keyed<PromptLogprob>>>;

// The token id of stop_token_ids, or the string of stop; null where the output ended by itself or
// for its length.
using StopReason = std::optional<std::variant<int32_t, std::string>>;

// A choice, or what is new of one. `kField` names what it says: its text, message or delta.
template <Word kField, typename Said, typename Logprobs>
struct Choice {
    static constexpr bool kIsChat = std::is_same_v<Logprobs, ChatLogprobs>;
    size_t index = 0;
    Said said;
    std::optional<Written<Logprobs>> logprobs;
    std::optional<std::string_view> finish_reason;
    Maybe<StopReason> stop_reason;  // with the finish
    Maybe<std::vector<int32_t>> token_ids;
    Maybe<Written<PromptLogprobs>>
        prompt_logprobs;  // of chats it is the response's, not a choice's
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("index", index);
        visit(kField.text, said);
        visit("logprobs", logprobs);
        visit("finish_reason", finish_reason);
        visit("stop_reason", stop_reason);
        visit("token_ids", token_ids);
        if constexpr (!kIsChat) visit("prompt_logprobs", prompt_logprobs);
    }
};

struct CalledFunction {
    std::string_view name;
    std::string_view arguments;  // JSON
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("name", name);
        visit("arguments", arguments);
    }
};

struct MessageToolCall {
    std::string_view id;
    Constant<"function"> type;
    CalledFunction function;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("type", type);
        visit("function", function);
    }
};

// Reasoning has both of the names that vLLM gave it.
struct Message {
    Constant<"assistant"> role;
    std::optional<std::string_view> content;  // null beside calls or reasoning where there is none
    std::optional<std::string> refusal;
    Maybe<std::string_view> reasoning;
    Maybe<std::vector<MessageToolCall>> tool_calls;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("role", role);
        visit("content", content);
        visit("refusal", refusal);
        visit("reasoning_content", reasoning);
        visit("reasoning", reasoning);
        visit("tool_calls", tool_calls);
    }
};

struct FunctionDelta {
    Maybe<std::string_view> name;
    std::string_view arguments;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("name", name);
        visit("arguments", arguments);
    }
};

// The first of a call has its id, type and name; the arguments of all together are its JSON.
struct DeltaToolCall {
    size_t index = 0;
    Maybe<std::string_view> id;
    Maybe<Constant<"function">> type;
    FunctionDelta function;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("index", index);
        visit("id", id);
        visit("type", type);
        visit("function", function);
    }
};

struct Delta {
    Maybe<Constant<"assistant">> role;
    Maybe<std::string_view> content;
    Maybe<std::string_view> reasoning;
    Maybe<std::vector<DeltaToolCall>> tool_calls;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("role", role);
        visit("content", content);
        visit("reasoning_content", reasoning);
        visit("reasoning", reasoning);
        visit("tool_calls", tool_calls);
    }
};

using TextChoice = Choice<"text", std::string_view, CompletionLogprobs>;
using MessageChoice = Choice<"message", Message, ChatLogprobs>;
using DeltaChoice = Choice<"delta", Delta, ChatLogprobs>;

// What a response and each of its chunks begin with.
template <Word kKind, typename OneChoice>
struct Beginning {
    std::string_view id;
    Constant<kKind> object;
    int64_t created = 0;  // seconds since 1970
    std::string_view model;
    std::vector<OneChoice> choices;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("object", object);
        visit("created", created);
        visit("model", model);
        visit("choices", choices);
    }
};

template <Word kKind, typename OneChoice>
struct Whole {
    using ChoiceType = OneChoice;
    Beginning<kKind, OneChoice> beginning;
    Usage usage;
    Maybe<Written<PromptLogprobs>> prompt_logprobs;
    template <typename Visit>
    void fields(Visit& visit) const {
        beginning.fields(visit);
        visit("usage", usage);
        if constexpr (OneChoice::kIsChat) visit("prompt_logprobs", prompt_logprobs);
    }
};

template <Word kKind, typename OneChoice>
struct Chunk {
    using ChoiceType = OneChoice;
    Beginning<kKind, OneChoice> beginning;
    Maybe<PromptProgress> prompt_progress;
    Maybe<std::optional<Usage>> usage;
    Maybe<Written<PromptLogprobs>> prompt_logprobs;
    template <typename Visit>
    void fields(Visit& visit) const {
        beginning.fields(visit);
        visit("prompt_progress", prompt_progress);
        visit("usage", usage);
        if constexpr (OneChoice::kIsChat) visit("prompt_logprobs", prompt_logprobs);
    }
};

struct Completion : Whole<"text_completion", TextChoice> {
    static constexpr const char* kName = "Completion";
};
struct CompletionChunk : Chunk<"text_completion", TextChoice> {
    static constexpr const char* kName = "CompletionChunk";
};
struct ChatCompletion : Whole<"chat.completion", MessageChoice> {
    static constexpr const char* kName = "ChatCompletion";
};
struct ChatCompletionChunk : Chunk<"chat.completion.chunk", DeltaChoice> {
    static constexpr const char* kName = "ChatCompletionChunk";
};

// --- Embeddings ---

struct Embedding {
    Constant<"embedding"> object;
    size_t index = 0;
    std::variant<std::span<const float>, std::string> embedding;  // the text: base64
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("object", object);
        visit("index", index);
        visit("embedding", embedding);
    }
};

struct EmbeddingUsage {
    int64_t prompt_tokens = 0;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("prompt_tokens", prompt_tokens);
        visit("total_tokens", prompt_tokens);
    }
};

struct Embeddings {
    static constexpr const char* kName = "Embeddings";
    Constant<"list"> object;
    std::vector<Embedding> data;
    std::string_view model;
    EmbeddingUsage usage;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("object", object);
        visit("data", data);
        visit("model", model);
        visit("usage", usage);
    }
};

// --- Scores ---

struct Score {
    size_t index = 0;
    Constant<"score"> object;
    float score = 0.0f;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("index", index);
        visit("object", object);
        visit("score", score);
    }
};

struct Scores {
    static constexpr const char* kName = "Scores";
    std::string_view id;
    Constant<"list"> object;
    int64_t created = 0;
    std::string_view model;
    std::vector<Score> data;
    Usage usage;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("object", object);
        visit("created", created);
        visit("model", model);
        visit("data", data);
        visit("usage", usage);
    }
};

struct RankedDocument {
    std::string_view text;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("text", text);
    }
};

struct RankedResult {
    size_t index = 0;
    Maybe<RankedDocument> document;
    float relevance_score = 0.0f;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("index", index);
        visit("document", document);
        visit("relevance_score", relevance_score);
    }
};

struct Ranking {
    static constexpr const char* kName = "Ranking";
    std::string_view id;
    std::string_view model;
    EmbeddingUsage usage;
    std::vector<RankedResult> results;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("model", model);
        visit("usage", usage);
        visit("results", results);
    }
};

struct Classification {
    size_t index = 0;
    std::string_view label;
    std::span<const float> probs;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("index", index);
        visit("label", label);
        visit("probs", probs);
        visit("num_classes", probs.size());
    }
};

struct Classifications {
    static constexpr const char* kName = "Classifications";
    std::string_view id;
    Constant<"list"> object;
    int64_t created = 0;
    std::string_view model;
    std::vector<Classification> data;
    Usage usage;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("object", object);
        visit("created", created);
        visit("model", model);
        visit("data", data);
        visit("usage", usage);
    }
};

// --- Models and tokens ---

struct Model {
    static constexpr const char* kName = "Model";
    std::string id;
    Constant<"model"> object;
    int64_t created = 0;
    Constant<"nvllm"> owned_by;
    std::string root;
    std::optional<std::string> parent;
    Maybe<int64_t> max_model_len;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("object", object);
        visit("created", created);
        visit("owned_by", owned_by);
        visit("root", root);
        visit("parent", parent);
        visit("max_model_len", max_model_len);
    }
};

struct ModelList {
    static constexpr const char* kName = "ModelList";
    Constant<"list"> object;
    std::vector<Model> data;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("object", object);
        visit("data", data);
    }
};

struct Tokens {
    static constexpr const char* kName = "Tokens";
    size_t count = 0;
    int64_t max_model_len = 0;
    std::vector<int32_t> tokens;
    Maybe<std::vector<std::string>> token_strs = {};  // when asked for
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("count", count);
        visit("max_model_len", max_model_len);
        visit("tokens", tokens);
        visit("token_strs", token_strs);
    }
};

// What a chat's template makes of it.
struct RenderedPrompt {
    static constexpr const char* kName = "RenderedPrompt";
    std::string model;
    std::string prompt;
    std::vector<int32_t> prompt_token_ids;
    size_t count = 0;
    int64_t max_tokens = 0;  // that the answer may have
    int64_t max_model_len = 0;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("model", model);
        visit("prompt", prompt);
        visit("prompt_token_ids", prompt_token_ids);
        visit("count", count);
        visit("max_tokens", max_tokens);
        visit("max_model_len", max_model_len);
    }
};

struct Text {
    static constexpr const char* kName = "Text";
    std::string text;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("prompt", text);
        visit("content", text);
    }
};

struct TokenizerInfo {
    static constexpr const char* kName = "TokenizerInfo";
    std::string tokenizer_class;
    std::optional<std::string> bos_token;
    std::optional<std::string> eos_token;
    int64_t vocab_size = 0;
    int64_t model_max_length = 0;
    std::optional<std::string> chat_template;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("tokenizer_class", tokenizer_class);
        visit("bos_token", bos_token);
        visit("eos_token", eos_token);
        visit("vocab_size", vocab_size);
        visit("model_max_length", model_max_length);
        visit("chat_template", chat_template);
    }
};

// --- The server itself ---

struct State {
    static constexpr const char* kName = "State";
    std::string status;
    Maybe<std::string> model;
    Maybe<double> seconds;  // since an engine began the step that it does not end
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("status", status);
        visit("model", model);
        visit("seconds", seconds);
    }
};

struct Version {
    static constexpr const char* kName = "Version";
    std::string version;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("version", version);
    }
};

struct Load {
    static constexpr const char* kName = "Load";
    size_t server_load = 0;  // requests in flight
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("server_load", server_load);
    }
};

}  // namespace responses
}  // namespace nvllm::server
