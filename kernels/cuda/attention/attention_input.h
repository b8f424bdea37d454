// CUDA version of kernels/ops/attention_input.h; views are checked already.
#pragma once

#include "kernels/ops/attention_input.h"

namespace nvllm::cuda {

void attention_input(const Context& context, const ops::AttentionInputOptions& options,
                     const TensorView& projected, const ConstTensorView& slots,
                     const TensorView& key_cache, const TensorView& value_cache);

}  // namespace nvllm::cuda
