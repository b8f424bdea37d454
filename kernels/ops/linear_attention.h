// Layers that keep one state for each sequence instead of keys and values for each token: a short
// convolution, and linear attention with gates, by the delta rule (Yang et al. 2024, Gated Delta
// Networks) or by addition (Dao and Gu 2024, Mamba-2).
//
// Rows of one sequence are adjacent and in order; a sequence's state lies in a slot. Each token is
// computed from the state that the one before it left, in one order of sums: results do not depend
// on how a sequence is cut into steps.
#pragma once

#include <cstdint>

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// Which rows belong to which sequence, and where its state lies. A sequence all of whose tokens are
// in this step begins with a state of zeros, whatever its slot holds.
struct StateRows {
    ConstTensorView query_start_loc;  // int32 [sequences + 1]
    ConstTensorView seq_lens;         // int32 [sequences], this step's tokens included
    ConstTensorView slots;            // int32 [sequences, columns], of which the first counts
};

struct ConvWeights {
    ConstTensorView taps;  // float32 [taps, channels]
    ConstTensorView bias;  // float32 [channels]; of rank 0: none
};

// out[t, c] = bias[c] + sum over j of taps[j, c] * x[t - taps + 1 + j, c], with x of the tokens
// before this step from the state, which then holds the last taps - 1 rows of x.
// x, out: activations [tokens, channels], of one type, rows may be strided, not the same memory;
// states: float32 [slots, taps - 1, channels], slots may be strided.
void causal_conv1d(const Context& context, const ConstTensorView& x, const ConvWeights& weights,
                   const StateRows& rows, const TensorView& states, const TensorView& out);

// out = x / sqrt(sum(x²) + epsilon) * scale, row by row. Activations [tokens, heads, head_dim], of
// one type, rows may be strided; may be the same view.
void l2_norm(const Context& context, const ConstTensorView& x, float epsilon, float scale,
             const TensorView& out);

struct GateWeights {
    ConstTensorView a_log;    // float32 [heads]
    ConstTensorView dt_bias;  // float32 [heads * n], of a head's n decays
    float least_step = 0.0f;
};

// The gates of linear attention, float32, contiguous:
// step = max(log(1 + exp(a + dt_bias)), least_step), decay = exp(-exp(a_log) * step),
// update = 1 / (1 + exp(-b)), or the step where b is of rank 0, which it may be where n is 1.
// a: activations [tokens, heads * n], as decay; b: [tokens, heads], as update, of the type of a.
// Rows of a and b may be strided.
void state_gates(const Context& context, const ConstTensorView& a, const ConstTensorView& b,
                 const GateWeights& weights, const TensorView& decay, const TensorView& update);

struct LinearAttentionInput {
    ConstTensorView queries;  // activations [tokens, key_heads, key_dim], rows may be strided
    ConstTensorView keys;     // alike
    ConstTensorView values;   // activations [tokens, heads, value_dim], rows may be strided
    ConstTensorView decay;    // float32 [tokens, heads], or [tokens, heads, key_dim]
    ConstTensorView update;   // float32 [tokens, heads]
    bool is_delta = true;     // by the delta rule, or by addition
    ConstTensorView skip;     // float32 [heads]; of rank 0: of zeros
};

// For each token and head, with S [key_dim, value_dim] the head's state and q, k of key head
// head / (heads / key_heads):
//   S = decay * S;  S = S + k (update * (v - e))ᵀ;  out = Sᵀ q + skip * v
// where e = Sᵀ k by the delta rule and 0 by addition, and a decay is of the head, or one of each
// dimension of its keys (Kimi Linear, Moonshot AI 2025).
// states: float32 [slots, heads, key_dim, value_dim], slots may be strided; out: activations
// [tokens, heads, value_dim], rows may be strided. heads is a multiple of key_heads.
void linear_attention(const Context& context, const LinearAttentionInput& input,
                      const StateRows& rows, const TensorView& states, const TensorView& out);

}  // namespace nvllm::ops
