// The JSON of responses to completions and chats, whole and in chunks, in the OpenAI API's shapes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/chat/output/output_parser.h"
#include "lib/request/request_output.h"
#include "lib/server/openai/response_types.h"
#include "lib/server/openai/text_offsets.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm::server {

// The same in every part of one response.
struct ResponseEnvelope {
    bool is_chat = false;
    std::string id;
    int64_t created = 0;  // seconds since 1970
    std::string model;
};

// What a choice's text begins after.
struct ChoiceStart {
    std::span<const int32_t> prompt;
    std::optional<std::string_view> echo;  // the prompt's text, when it is returned
    bool skips_special_tokens = true;
};

// Logprobs of a run of tokens.
struct LogprobPiece {
    std::optional<ChoiceStart> start;     // with the first piece, of completions
    std::vector<SampledLogprobs> prompt;  // of an echo, all but the first, which nothing predicts
    std::vector<SampledLogprobs> output;
    std::string_view text;  // what is returned with this piece, of completions
    bool is_last = false;
};

// Writes logprobs of one choice, piece after piece. Those of completions say where in the returned
// text each token stands; tokens that a stop string cut off stand at its end, but in a piece before
// the last one where their text would have been.
class LogprobWriter {
  public:
    // `shows_ids`: tokens are shown as "token_id:17" in place of their text.
    LogprobWriter(std::shared_ptr<const Tokenizer> tokenizer, bool is_chat, bool shows_ids = false);

    // responses::ChatLogprobs or responses::CompletionLogprobs.
    std::string json(const LogprobPiece& piece);

  private:
    responses::ChatLogprobs of_chat(const LogprobPiece& piece) const;
    responses::CompletionLogprobs of_completion(const LogprobPiece& piece);
    void add_start(const LogprobPiece& piece, responses::CompletionLogprobs& lists);
    void add(const SampledLogprobs& token, size_t offset,
             responses::CompletionLogprobs& lists) const;
    std::string bytes_of(int32_t token_id) const;
    responses::TopLogprob shown(const TokenLogprob& token) const;

    std::shared_ptr<const Tokenizer> tokenizer_;
    bool is_chat_;
    bool shows_ids_;
    TextOffsets offsets_;
    size_t num_characters_ = 0;  // returned so far
};

// What is said of one choice, whole or since the last chunk.
struct ChoicePiece {
    size_t index = 0;
    std::string text = {};
    std::string logprobs = {};  // JSON; empty: not asked for
    std::optional<FinishReason> finish_reason = {};
    responses::StopReason stop_reason = {};
    std::optional<std::vector<int32_t>> token_ids = {};  // when asked for
    std::string prompt_logprobs = {};                    // JSON; empty: not asked for
    // Of chats.
    std::string reasoning = {};
    std::vector<ToolCallDelta> tool_calls = {};
    bool has_called = false;  // in this piece or before
};

std::string whole_response(const ResponseEnvelope& head, const std::vector<ChoicePiece>& choices,
                           const Usage& usage);

enum class ChunkUsage { absent, null, given };

// The first chunk of each choice of a chat, which says who speaks.
std::string role_chunk(const ResponseEnvelope& head, size_t index, ChunkUsage usage,
                       const Usage& counts);
std::string chunk_of(const ResponseEnvelope& head, const ChoicePiece& choice, ChunkUsage usage,
                     const Usage& counts);
// After all choices.
std::string usage_chunk(const ResponseEnvelope& head, const Usage& usage);

std::string progress_chunk(const ResponseEnvelope& head, const PromptProgress& progress,
                           ChunkUsage usage, const Usage& counts);

// responses::PromptLogprobs. One entry a prompt token, as vLLM: null, then a map from id to
// logprob, rank and text.
std::string prompt_logprobs_json(const std::vector<SampledLogprobs>& logprobs,
                                 const Tokenizer* tokenizer);

}  // namespace nvllm::server
