// CPU version of kernels/ops/matmul.h; views are checked already.
#pragma once

#include "kernels/ops/matmul.h"

namespace nvllm::cpu {

void fused_matmul(const Context& context, const ConstTensorView& x,
                  std::span<const ops::MatmulWeight> weights, DType compute_type,
                  ops::MatmulOutput output, const TensorView& y);

size_t matmul_scratch_bytes(int64_t tokens, int64_t in, DType compute_type, DType weight_type,
                            int num_threads);

}  // namespace nvllm::cpu
