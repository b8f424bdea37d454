// CPU versions of kernels/ops/rope.h; views are checked already.
#pragma once

#include "kernels/ops/rope.h"

namespace nvllm::cpu {

void rope_cos_sin(const Context& context, const ConstTensorView& positions,
                  const ConstTensorView& inverse_frequencies, float attention_scaling,
                  const TensorView& cosines, const TensorView& sines,
                  const ConstTensorView& choices);

void rope(const Context& context, const ConstTensorView& cosines, const ConstTensorView& sines,
          const TensorView& x);

}  // namespace nvllm::cpu
