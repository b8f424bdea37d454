// From rows of logits to tokens: changes of scores, the choice, log-probabilities.
//
// The order of steps is that of lib/decode/logits_processors.h: tokens that are not allowed and
// biases, repetition, frequency and presence penalty, temperature, top-k, top-p, min-p, the draw.
// The weight of a score is exp((score - best) / temperature), kept as a whole number of 2^-40: sums
// of weights have the same bits in every order of addition, and what is below 2^-41 of the best is
// nothing.
#pragma once

#include <cstdint>

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// What becomes of one score before penalties: `bias` is added; -infinity forbids the token.
struct LogitBias {
    int32_t row = 0;
    int32_t token = 0;
    float bias = 0.0f;
};

// A token that a row's sequence has, and how often it generated it; 0: only in the prompt.
struct SeenScore {
    int32_t row = 0;
    int32_t token = 0;
    int32_t num_generated = 0;
};

struct LogitPenalties {
    float repetition = 1.0f;
    float frequency = 0.0f;
    float presence = 0.0f;
};

// Records lie as u8 [count, sizeof] in memory of the device; views with data == nullptr: none.
struct LogitsAdjustments {
    ConstTensorView allowed;    // u32 [rows, (vocab + 31) / 32]: bit i of word w is token 32 w + i
    ConstTensorView biases;     // LogitBias, each token of a row once
    ConstTensorView seen;       // SeenScore, each token of a row once
    ConstTensorView penalties;  // LogitPenalties of each row; needed where `seen` is given
};

// Changes scores in place. logits: float32 [rows, vocab], rows may be strided. Records of tokens
// outside the vocabulary or of rows that do not exist are passed over.
void change_scores(const Context& context, const LogitsAdjustments& changes,
                   const TensorView& logits);

// How one row chooses.
struct SamplingRow {
    uint64_t seed = 0;
    uint32_t num_generated = 0;
    uint32_t continuation_index = 0;
    float temperature = 1.0f;  // 0: the best score, of equals the lowest id; nothing else matters
    float top_p = 1.0f;        // 1: off
    float min_p = 0.0f;        // 0: off
    int32_t top_k = 0;         // 0: off
};

// Instead of a token: a score is NaN or +infinity, or all are -infinity.
constexpr int32_t kNoToken = -1;

// tokens[r] = what row r chooses; kNoToken where it cannot. logits: float32 [rows, vocab], rows may
// be strided; rows: SamplingRow as u8 [rows, sizeof(SamplingRow)]; tokens: int32 [rows].
void sample(const Context& context, const ConstTensorView& logits, const ConstTensorView& rows,
            const TensorView& tokens);

constexpr int64_t kMaxTopLogprobs = 128;

// Log-softmax of rows [rows, vocab]: the value and the rank of chosen[r], and the likeliest
// top_tokens.dim(1) of a row (at most kMaxTopLogprobs, may be 0), best first and of equals the
// lower id first. Where there are fewer scores above -infinity the rest is kNoToken. A chosen token
// outside the vocabulary gives NaN and rank 0.
//   chosen, ranks int32 [rows]; logprobs float32 [rows]; top_tokens int32 [rows, count];
//   top_logprobs float32 [rows, count]; all contiguous.
struct LogprobsOutput {
    TensorView logprobs;
    TensorView ranks;
    TensorView top_tokens;
    TensorView top_logprobs;
};
void logprobs(const Context& context, const ConstTensorView& logits, const ConstTensorView& chosen,
              const LogprobsOutput& out);

}  // namespace nvllm::ops
