// CUDA versions of kernels/ops/activation.h; views are checked already.
#pragma once

#include "kernels/ops/activation.h"

namespace nvllm::cuda {

void activation(const Context& context, ops::Activation function, const ConstTensorView& x,
                const TensorView& out);

void gated_activation(const Context& context, ops::Activation function, const ConstTensorView& gate,
                      const ConstTensorView& up, const TensorView& out);

}  // namespace nvllm::cuda
