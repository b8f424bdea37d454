// Rotary position embedding (Su et al. 2021), rotate-half layout of Hugging Face checkpoints.
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

// Rotates in place the first `rotary` values of every head: pairs (i, i + rotary / 2).
// x: activations [tokens, heads, head_dim], rows may be strided; cosines, sines: float32 [tokens,
// rotary / 2].
void rope(const Context& context, const ConstTensorView& cosines, const ConstTensorView& sines,
          const TensorView& x);

}  // namespace nvllm::ops
