// Log-probabilities of a row of the model's logits.
#pragma once

#include <cstdint>
#include <span>

#include "lib/decode/scores.h"
#include "lib/request/step_result.h"

namespace nvllm {

// JSON and OpenAI's API have this value instead of -inf.
constexpr float kLowestLogprob = -9999.0f;

// Log-softmax of `logits` [vocab]: the chosen token's value and rank, and the `num_top` likeliest,
// best first and of equals the lower id first. The rank counts in that same order. The value of
// a token has the same bits as the chosen one and in the list. `scratch` is overwritten;
// `result.top` keeps its capacity. REQUIRES: check_row(logits).valid; 0 <= chosen < vocab.
void compute_logprobs(std::span<const float> logits, int32_t chosen, int32_t num_top,
                      Scores& scratch, SampledLogprobs& result);

}  // namespace nvllm
