// The kernels of dense matmuls; views are checked already.
#pragma once

#include "kernels/ops/matmul.h"

namespace nvllm::cuda {

// Any types and strides, with an order of sums that does not depend on the number of rows.
void gemm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
          const ConstTensorView& bias, DType compute_type, ops::MatmulOutput output,
          const TensorView& y);

// Whether there are at most kMaxGemvRows, of the weights' 16-bit type and in whole runs of 16
// bytes, for a kernel of their own: as fast as weights come from memory, in another order of sums.
bool can_gemv(const ConstTensorView& x, const ConstTensorView& weight, DType compute_type);
// REQUIRES: can_gemv().
void gemv(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
          const ConstTensorView& bias, DType compute_type, ops::MatmulOutput output,
          const TensorView& y);

}  // namespace nvllm::cuda
