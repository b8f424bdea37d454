// How likely a model finds given tokens: logprobs of whole sequences, through the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lib/measure/engine_load.h"

namespace nvllm {

// Of one token, given all before it in its sequence.
struct TokenScore {
    float logprob = 0.0f;  // natural logarithm
    int32_t rank = 1;      // 1: the model's own choice
};

// Scores of the tokens from the second on, for each sequence in the order given; `done` is told how
// many sequences are finished, on the engine thread. REQUIRES: each has at least two tokens. Throws
// bad_data when one does not fit the context, internal when a request failed, Interrupted.
//
// The last token of a sequence is made the only one that may be generated after those before it: so
// a sequence may be as long as the context.
std::vector<std::vector<TokenScore>> score_sequences(
    EngineLoad& load, const std::vector<std::vector<int32_t>>& sequences,
    const std::function<void(size_t)>& done = {});

// The whole distribution before each token from the second on: `row` gets the token's place in the
// sequence and the logprobs of all ids [vocab], in order, once the request has finished. Throws as
// above. Takes memory for 12 bytes times tokens times vocab.
void score_rows(EngineLoad& load, const std::vector<int32_t>& sequence,
                const std::function<void(size_t token, std::span<const float> logprobs)>& row);

}  // namespace nvllm
