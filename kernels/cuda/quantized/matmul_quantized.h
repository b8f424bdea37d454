// The kernels of matmuls with quantized weights as they are packed; views are checked already.
#pragma once

#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cuda {

// ops::matmul_quantized() by the kernels that read packed weights, with an order of sums that does
// not depend on the number of rows.
void gemm_quantized(const Context& context, const ConstTensorView& x,
                    const ops::QuantizedWeight& weight, const ConstTensorView& bias,
                    DType compute_type, ops::MatmulOutput output, const TensorView& y);

}  // namespace nvllm::cuda
