// CUDA versions of kernels/ops/norm.h; views are checked already.
#pragma once

#include "kernels/ops/norm.h"

namespace nvllm::cuda {

void rms_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
              const ops::RmsNormOptions& options, const TensorView& out);

void add_rms_norm(const Context& context, const ConstTensorView& x, const TensorView& residual,
                  const ConstTensorView& weight, const ops::RmsNormOptions& options,
                  const TensorView& out);

void layer_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, float epsilon, const TensorView& out);

}  // namespace nvllm::cuda
