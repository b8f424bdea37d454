// What a client asks of /v1/completions and /v1/chat/completions, read from JSON into typed data.
//
// Field names and meanings are those of the OpenAI API and, for extensions, of vLLM. A field that
// would change the output is never ignored: it is refused if it is not built.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/chat/output/output_parser.h"
#include "lib/engine/options/request_json.h"
#include "lib/server/openai/request_limits.h"
#include "lib/server/openai/tool_request.h"

namespace nvllm::server {

struct GenerationRequest {
    bool is_chat = false;
    std::string model;                      // as named by the client; empty: the first one
    std::vector<RequestInput> inputs;       // one a prompt; they differ in the prompt alone
    std::vector<std::string> prompt_texts;  // as given, for echo; empty for ids and messages
    bool stream = false;
    bool include_usage = false;           // in one more chunk at the end
    bool continuous_usage_stats = false;  // in every chunk
    bool return_progress = false;         // chunks while the prompt is computed
    bool echo = false;                    // the prompt before the output
    bool is_prompt_only = false;          // max_tokens 0: the prompt alone is wanted back
    bool return_token_ids = false;
    bool shows_ids = false;        // tokens of logprobs as "token_id:17"
    bool prompt_logprobs = false;  // asked for in vLLM's field, besides echo
    // Of completions: with echo the prompt's tokens have logprobs as well.
    std::optional<int32_t> logprobs;
    // Of chats: what is told apart in the text; the functions there are.
    OutputFormat format = {};
    ToolRequest tool_request = {};
    HeldCalls held_calls = {};      // of the grammar that the answer is held to
    bool include_reasoning = true;  // in the response
    // Names of fields that were taken and do nothing, for the x-nvllm-ignored header.
    std::vector<std::string> ignored;

    int32_t n() const { return inputs.front().sampling.n; }
    size_t num_choices() const { return inputs.size() * static_cast<size_t>(n()); }
    // Sequences that are computed.
    int64_t num_sequences() const {
        return static_cast<int64_t>(inputs.size()) * inputs.front().sampling.num_sequences();
    }
};

// Of one request, however its prompts, n and best_of come to them.
inline constexpr int64_t kMaxSequencesOfRequest = 16'384;

// A body of /v1/completions, and one of /v1/chat/completions: `defaults` hold where it says
// nothing. Faults name the field.
Result<GenerationRequest> read_completion_request(nlohmann::ordered_json body,
                                                  const SamplingParams& defaults,
                                                  const RequestLimits& limits);
Result<GenerationRequest> read_chat_request(nlohmann::ordered_json body,
                                            const SamplingParams& defaults,
                                            const RequestLimits& limits);

// The part of a chat that says what the prompt is, of /tokenize: messages and what goes to the
// template besides them.
Result<ChatPrompt> read_chat_prompt(nlohmann::ordered_json body, const RequestLimits& limits);

// "text", [1, 2], ["one", "two"] or [[1, 2], [3]], the value of `field`: each of them.
Result<std::vector<nlohmann::ordered_json>> split_prompts(const nlohmann::ordered_json& prompt,
                                                          const std::string& field,
                                                          const RequestLimits& limits);
// One of these; `text` is set when it is one.
std::optional<Fault> set_prompt(const nlohmann::ordered_json& prompt, const std::string& field,
                                RequestInput& input, std::string& text);
// [1, 2], the value of `field`.
Result<std::vector<int32_t>> read_token_ids(const nlohmann::ordered_json& ids,
                                            const std::string& field);

}  // namespace nvllm::server
