// The output of a step for a caller: the new part of each sequence of a request. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/request/request.h"
#include "lib/request/step_result.h"

namespace nvllm {

struct ContinuationOutput {
    int32_t index = 0;                      // of the sequence in its request
    std::string text;                       // safe to show, since the last output
    std::vector<int32_t> token_ids;         // generated since the last output
    std::vector<SampledLogprobs> logprobs;  // one a token, when asked for
    std::optional<FinishReason> finish_reason;
    std::optional<int32_t> stop_token_id;    // the id that stopped it, when it was one
    std::optional<std::string> stop_string;  // of SamplingParams::stop, when it was one
    std::optional<Fault> fault;              // why, when finish_reason is error
    int32_t num_generated_tokens = 0;        // in all
    // With the finish: the score of a beam; else the sum of the logprobs, if they are known.
    std::optional<double> cumulative_logprob;
};

// Seconds on the engine's clock; empty: it has not happened.
struct RequestTimes {
    double arrival_s = 0.0;
    double output_s = 0.0;  // of this output
    std::optional<double> first_scheduled_s;
    std::optional<double> first_token_s;
    std::optional<double> finished_s;
};

struct RequestOutput {
    RequestId request_id = 0;
    std::vector<ContinuationOutput> continuations;  // sequences with new output
    // Of the prompt tokens computed since the last output, if requested. The first of all is that
    // of the second prompt token.
    std::vector<SampledLogprobs> prompt_logprobs;
    std::vector<float> embedding;  // with the finish of a request with pooling
    int32_t num_prompt_tokens = 0;
    int32_t num_cached_tokens = 0;  // of the prompt, found in the cache by the first sequence
    // Behind those, tokens whose keys and values were cached, but no state to go on from.
    int32_t num_without_state = 0;
    // Where the request's adapter was when it came; empty: it has none, or none has begun.
    std::optional<AdapterTier> adapter_tier = {};
    // Of the prompt, including cached ones; updated for requests with wants_progress.
    int32_t num_computed_prompt_tokens = 0;
    RequestTimes times;     // the earliest of its sequences; finished_s: of the last
    bool finished = false;  // all sequences have; no output follows
};

}  // namespace nvllm
