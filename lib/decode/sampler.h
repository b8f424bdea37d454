// From one sequence's row of logits to its next token.
//
// A random choice depends on the row, the sampling parameters, the seed, the continuation index and
// the number of the token, and on nothing else: not on the batch, the thread, what was drawn
// before, or a preemption.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/decode/sampling_state.h"
#include "lib/decode/scores.h"
#include "lib/request/step_result.h"

namespace nvllm {

struct SampledToken {
    int32_t token_id = 0;
    std::optional<SampledLogprobs> logprobs;  // when asked for
};

// Why no token can be chosen: the row as the model gave it has a NaN or +inf, or no finite score.
Fault not_numbers();
// Why no token can be chosen of a row that was well before parameters changed it.
Fault no_token_left();

// Buffers of one thread, reused from step to step: after the first use with a vocabulary nothing is
// allocated but the lists that results carry away.
struct SamplerScratch {
    Scores scores;
    std::vector<float> raw_logits;
};

// Chooses the next token of the sequence from `logits` [vocab], which are overwritten. Does not
// change the state: the caller accept()s the token once it belongs to the sequence. Greedy choice
// takes the lowest id of equals. A fault ends this sequence only: internal when a logit is NaN or
// +inf or all are -inf, bad_data when the parameters forbid every token. `token_mask`: the tokens
// that may be chosen, u32 [(vocab + 31) / 32], bit i of word w is token 32 w + i; empty: all.
Result<SampledToken> sample(const SequenceSamplingState& state, std::span<float> logits,
                            SamplerScratch& scratch, std::span<const uint32_t> token_mask = {});

// The likeliest `count` tokens of a row that the model gave [vocab], best first, and of equals the
// lower id first. A fault as sample() has.
std::optional<Fault> find_candidates(std::span<const float> logits, int32_t count,
                                     SamplerScratch& scratch, std::vector<TokenLogprob>& result);

// The logprob of `token` in a row that the model gave [vocab], and of the `num_top` likeliest. A
// fault as sample() has when a logit is NaN or +inf or all are -inf.
std::optional<Fault> score_token(std::span<const float> logits, int32_t token, int32_t num_top,
                                 SamplerScratch& scratch, SampledLogprobs& result);

}  // namespace nvllm
