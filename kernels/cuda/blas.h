// Dense products by a library, where there is one. blas_cublaslt.cc opens cuBLASLt when the first
// product asks for it; emulation/blas_host.cc has none.
#pragma once

#include <string>

#include "kernels/ops/matmul.h"

namespace nvllm::cuda {

// "cuBLASLt 13.1", or why products are computed without it.
std::string describe_blas();

// Does the product and returns true, or returns false where the library is not there or does not
// take these types and strides. With `invariant` one plan serves every number of rows.
bool multiply_by_library(const Context& context, const ConstTensorView& x,
                         const ConstTensorView& weight, const ConstTensorView& bias,
                         DType product_type, ops::MatmulOutput output, bool invariant,
                         const TensorView& y);

}  // namespace nvllm::cuda
