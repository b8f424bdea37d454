// What was asked: tokens in, how to go on from them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/cache/cache_key_extras.h"
#include "lib/request/adapter.h"
#include "lib/request/answer_constraint.h"
#include "lib/request/pooling_params.h"
#include "lib/request/sampling_params.h"

namespace nvllm {

using RequestId = uint64_t;
// One continuation of a request; unique over the life of an engine, never reused.
using SequenceId = uint64_t;

struct Request {
    RequestId id = 0;
    std::vector<int32_t> prompt_token_ids;  // at least one
    // Of the prompt, the tokens that the next turn of its conversation begins with in any case: up
    // to where the answer's header begins. 0: not known.
    int32_t num_stable_tokens = 0;
    // Of the prompt, tokens before a message's end or the next one's beginning, ascending. Where a
    // model has states, some are kept there.
    std::vector<int32_t> message_borders = {};
    SamplingParams sampling;  // seed is set, max_tokens is set and fits the context
    // TokenExpert is a vector and no text: nothing is generated, and of `sampling` nothing holds.
    std::optional<PoolingParams> pooling;
    std::vector<int32_t> eos_token_ids;  // the model's end tokens
    // What each of its answers is held to; null: nothing. Not together with a beam search.
    std::shared_ptr<const AnswerConstraintSource> constraint = {};
    // Special tokens that stay in the text where sampling.skip_special_tokens leaves the others
    // out.
    std::vector<int32_t> kept_special_tokens;
    std::string cache_salt;  // requests with different salts share no cached blocks
    AdapterRef adapter;
    std::vector<MediaKey> media_keys;  // what stands behind placeholder tokens of the prompt
    bool hides_logprobs = false;       // they are wanted to rank continuations only
    bool wants_progress = false;       // outputs tell of the prompt's being computed, too
    bool speculative = true;           // drafts may be proposed for it, where the engine does
    int32_t priority = 0;              // smaller first, for policies that look at it
    double arrival_s = 0.0;            // on the engine's clock
};

enum class FinishReason : uint8_t {
    stop,       // an end token, a stop id or a stop string; or the vector that was wanted is there
    length,     // max_tokens or the context's end
    cancelled,  // the caller took it back
    error,      // a fault of this request alone
};

// "stop", "length", "abort", "error": the words of the OpenAI API and of vLLM.
const char* finish_reason_name(FinishReason reason);

}  // namespace nvllm
