// The JSON of answers to completions and chats, whole and in chunks, in the OpenAI API's shapes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/request/request_output.h"
#include "lib/text/detokenizer.h"
#include "lib/text/tokenizer.h"

namespace nvllm::server {

// The same in every part of one answer.
struct AnswerHead {
    bool is_chat = false;
    std::string id;
    int64_t created = 0;  // seconds since 1970
    std::string model;
};

struct Usage {
    int64_t prompt_tokens = 0;
    int64_t completion_tokens = 0;
    int64_t cached_tokens = 0;  // of the prompt

    std::string json() const;
};

// Logprobs of a run of tokens.
struct LogprobPiece {
    std::vector<SampledLogprobs> tokens;
    // The prompt begins here: its first token, which nothing predicts.
    std::optional<int32_t> first_prompt_token;
};

// Writes logprobs of one choice, piece after piece: completions give each token's place in the
// text.
class LogprobWriter {
  public:
    LogprobWriter(std::shared_ptr<const Tokenizer> tokenizer, bool is_chat);

    // `text_start`: characters of the answer's text before the first piece.
    void begin_at(size_t text_start) { next_offset_ = text_start; }
    std::string json(const LogprobPiece& piece);

  private:
    std::string chat_json(const LogprobPiece& piece) const;
    std::string completion_json(const LogprobPiece& piece);
    std::string bytes_of(int32_t token_id) const;
    std::string token_json(const TokenLogprob& token) const;

    std::shared_ptr<const Tokenizer> tokenizer_;
    bool is_chat_;
    size_t next_offset_ = 0;  // characters of the text before the next token
};

// What is said of one choice, whole or since the last chunk.
struct ChoicePiece {
    size_t index = 0;
    std::string text;
    std::string logprobs = "null";  // JSON
    std::optional<FinishReason> finish_reason;
    std::optional<int32_t> stop_token_id;
    std::optional<std::vector<int32_t>> token_ids;  // when asked for
    std::string prompt_logprobs;                    // JSON; empty: not asked for
};

std::string whole_answer(const AnswerHead& head, const std::vector<ChoicePiece>& choices,
                         const Usage& usage);

enum class ChunkUsage { absent, null, given };

// The first chunk of each choice of a chat, which says who speaks.
std::string role_chunk(const AnswerHead& head, size_t index, ChunkUsage usage);
std::string chunk_of(const AnswerHead& head, const ChoicePiece& choice, ChunkUsage usage,
                     const Usage& counts);
// After all choices.
std::string usage_chunk(const AnswerHead& head, const Usage& usage);

struct PromptProgress {
    int64_t total = 0;      // prompt tokens
    int64_t cached = 0;     // of these, found in the cache
    int64_t processed = 0;  // of these, computed or found
    double time_ms = 0.0;   // since the request began to be computed

    bool operator==(const PromptProgress&) const = default;
};
std::string progress_chunk(const AnswerHead& head, const PromptProgress& progress,
                           ChunkUsage usage);

// One entry a prompt token, as vLLM: null, then a map from id to logprob, rank and text.
std::string prompt_logprobs_json(const std::vector<SampledLogprobs>& logprobs,
                                 const Tokenizer* tokenizer);

}  // namespace nvllm::server
