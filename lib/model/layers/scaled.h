// Factors on what a linear reads and gives (Falcon-H1's multipliers).
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

// factor * x, on the arena; `x` itself where the factor is 1. Activations [tokens, width].
ConstTensorView scaled(const Context& context, float factor, const ConstTensorView& x);

// y (+)= factor * linear(x). Activations [tokens, ...].
void apply_scaled(const Context& context, const LinearWeight& linear, float factor,
                  const ConstTensorView& x, ops::MatmulOutput how, const TensorView& y);

}  // namespace nvllm
