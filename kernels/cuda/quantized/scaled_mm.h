// Products of many rows with quantized weights, quantized by quantized, where weights and rows of x
// have a scale each: a library multiplies the quantized values.
#pragma once

#include "kernels/cuda/quantized/dequantize_gemm.h"
#include "kernels/cuda/runtime/blas.h"
#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cuda {

// What multiplies matrices of quantized values.
struct ScaledMmLibrary {
    bool (*takes)(const Context& context, const ScaledMmArgs& product);
    void (*multiply)(const Context& context, const ScaledMmArgs& product);
};

// Whether x and weights are float8 or int8 with one scale a row and a column, and rows are so many
// that it pays.
bool can_scaled_mm(const ConstTensorView& x, const ops::QuantizedWeight& weight);

// float8 by float8 or int8 by int8, each sum scaled once; sums of integers are exact. False, and
// nothing is launched, if the library does not support the shape, and in a dry run, which does not
// know whether it does. Columns are computed in chunks:
// the quantized weights of a chunk have at most `chunk_bytes`, and so have sums of integers.
// REQUIRES: can_scaled_mm(), y is not empty.
bool scaled_mm(const Context& context, const ConstTensorView& x, const ops::QuantizedWeight& weight,
               const ConstTensorView& bias, ops::MatmulOutput output, const TensorView& y,
               const ScaledMmLibrary& library, int64_t chunk_bytes = kColumnChunkBytes);

}  // namespace nvllm::cuda
