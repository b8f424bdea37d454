// Products of many rows with quantized weights by their codes, where weights and rows of x have a
// scale each: a library multiplies the codes.
#pragma once

#include "kernels/cuda/quantized/dequantize_gemm.h"
#include "kernels/cuda/runtime/blas.h"
#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cuda {

// What multiplies matrices of codes.
struct ScaledMmLibrary {
    bool (*takes)(const Context& context, const ScaledMmArgs& product);
    void (*multiply)(const Context& context, const ScaledMmArgs& product);
};

// Codes of float8 by such, and of int8 by int8, each sum scaled once; integers' sums are exact.
// False, with nothing done, where others are given, rows are few, or the library takes none.
// Columns are taken by slabs: their codes have at most `chunk_bytes`, and so have sums of integers.
bool scaled_mm(const Context& context, const ConstTensorView& x, const ops::QuantizedWeight& weight,
               const ConstTensorView& bias, ops::MatmulOutput output, const TensorView& y,
               const ScaledMmLibrary& library, int64_t chunk_bytes = kColumnChunkBytes);

// 0 where products with such a matrix are never of codes.
size_t quantized_scratch_bytes(int64_t tokens, const ops::QuantizedLayout& layout);

}  // namespace nvllm::cuda
