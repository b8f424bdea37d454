// CUDA version of kernels/ops/embedding.h; views are checked already.
#pragma once

#include "kernels/ops/embedding.h"

namespace nvllm::cuda {

void embedding(const Context& context, const ConstTensorView& table, const ConstTensorView& ids,
               float scale, const TensorView& out);

}  // namespace nvllm::cuda
