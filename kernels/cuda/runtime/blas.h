// Dense matmuls by a library, where there is one. blas_cublaslt.cc opens cuBLASLt when the first
// product asks for it; cuda_emulation/runtime/blas_host.cc has none.
#pragma once

#include <string>

#include "kernels/ops/matmul.h"

namespace nvllm::cuda {

// "cuBLASLt 13.1", or why products are computed without it.
std::string describe_blas();

// Calls warn(sentence) where there is no library, and the first time that the library refuses a
// product which it had planned; each once in a process.
void warn_about_blas(void (*warn)(const char* sentence));

// Does the product and returns true, or returns false where the library is not there or does not
// take these types and strides. With `invariant` one plan serves every number of rows.
bool multiply_by_library(const Context& context, const ConstTensorView& x,
                         const ConstTensorView& weight, const ConstTensorView& bias,
                         DType compute_type, ops::MatmulOutput output, bool invariant,
                         const TensorView& y);

// y = x weight^T of quantized values: of float8, each sum times the scale of its row and that of
// its column; of int8, y being int32, as they are.
struct ScaledMmArgs {
    ConstTensorView x;           // [tokens, in]
    const float* x_scales;       // [tokens]; of int8: null
    ConstTensorView weight;      // [columns, in]
    const float* weight_scales;  // [columns]; the same
    ConstTensorView bias;        // as a dense matmul's; of int8: none
    ops::MatmulOutput output;
    TensorView y;
};

// Whether the library multiplies such quantized values, wherever they lie.
bool library_takes_scaled_mm(const Context& context, const ScaledMmArgs& product);
// REQUIRES: library_takes_scaled_mm().
void scaled_mm_by_library(const Context& context, const ScaledMmArgs& product);

}  // namespace nvllm::cuda
