// What a caller gets from a step: what is new in each continuation of a request. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/request/request.h"
#include "lib/request/step_result.h"

namespace nvllm {

struct ContinuationOutput {
    int32_t index = 0;                      // which of the request's n continuations
    std::string text;                       // safe to show, since the last output
    std::vector<int32_t> token_ids;         // generated since the last output
    std::vector<SampledLogprobs> logprobs;  // one a token, when asked for
    std::optional<FinishReason> finish_reason;
    std::optional<int32_t> stop_token_id;    // the id that stopped it, when it was one
    std::optional<std::string> stop_string;  // of SamplingParams::stop, when it was one
    std::optional<Fault> fault;              // why, when finish_reason is error
    int32_t num_generated_tokens = 0;        // in all
    // With the finish: of a beam its score, else, when logprobs are known, their sum.
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
    std::vector<ContinuationOutput> continuations;  // those with news
    // Of prompt tokens since the last output, when asked for: the first of all is of the second
    // prompt token.
    std::vector<SampledLogprobs> prompt_logprobs;
    std::vector<float> embedding;  // with the finish of a request with pooling
    int32_t num_prompt_tokens = 0;
    int32_t num_cached_tokens = 0;  // of the prompt, found in the cache by the first continuation
    // Of the prompt, cached ones among them; kept up for requests that want progress.
    int32_t num_computed_prompt_tokens = 0;
    RequestTimes times;     // the earliest of its continuations; finished_s: of the last
    bool finished = false;  // all continuations have; nothing follows
};

}  // namespace nvllm
