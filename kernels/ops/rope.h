// Rotary position embedding (Su et al. 2021), and factors on queries that follow from positions.
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// Cosine and sine of position * inverse_frequency, times attention_scaling; once per step, shared
// by all layers. positions: int32 [tokens]; inverse_frequencies: float32 [rotary / 2]; cosines,
// sines: float32 [tokens, rotary / 2]. The angle is the float32 product, as in transformers.
//
// With `choices`, int32 [tokens], inverse_frequencies are float32 [choices, rotary / 2] and each
// token names its row. REQUIRES: the rows exist.
void rope_cos_sin(const Context& context, const ConstTensorView& positions,
                  const ConstTensorView& inverse_frequencies, float attention_scaling,
                  const TensorView& cosines, const TensorView& sines,
                  const ConstTensorView& choices = {});

// Which of the first `rotary` values of a head turn together: i and i + rotary / 2, or neighbours,
// 2 i and 2 i + 1 (GPT-J).
enum class RopePairs : uint8_t { halves, interleaved };

// Rotates in place the first `rotary` values of every head: pair i by the angle of column i.
// x: activations [tokens, heads, head_dim], rows may be strided; cosines, sines: float32 [tokens,
// rotary / 2].
void rope(const Context& context, const ConstTensorView& cosines, const ConstTensorView& sines,
          RopePairs pairs, const TensorView& x);

// factors[t] = 1 + beta * log(1 + floor((positions[t] + offset) / original)): what queries are
// multiplied with so that attention stays sharp beyond the context that a model was trained for
// (Llama 4). positions: int32 [tokens]; factors: float32 [tokens]. REQUIRES: original > 0, offset
// >= 0.
void position_factors(const Context& context, const ConstTensorView& positions, float beta,
                      int64_t original, int64_t offset, const TensorView& factors);

}  // namespace nvllm::ops
