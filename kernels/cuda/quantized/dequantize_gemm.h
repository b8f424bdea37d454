// Products of many rows with quantized weights, which become a dense matrix on the way: of values,
// or of their quantized values, where a library multiplies those.
#pragma once

#include <functional>

#include "kernels/cuda/runtime/blas.h"
#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cuda {

// As large as the second-level cache of the largest GPUs: a chunk is read soon after it is written.
constexpr int64_t kColumnChunkBytes = int64_t{64} << 20;

// Columns of a chunk, whole tiles of them: as many as `chunk_bytes` hold, at least one tile.
int64_t chunk_columns(const ops::QuantizedLayout& layout, int64_t chunk_bytes, int64_t value_bytes);

// How chunks of the dense matrix are multiplied.
using DenseGemm = std::function<decltype(ops::matmul)>;

// Whether rows are so many that it pays, and scales of x can go into its values. Scaled weights,
// and quantized values of x with their scales, are rounded to the compute type, as `transformers`
// does, and the order of sums is the dense matmul's: rows of such a step have other bits than those
// of a smaller one.
bool can_dequantize(const ConstTensorView& x, const ops::QuantizedWeight& weight,
                    DType compute_type);

// Chunks of whole tiles of columns that have at most `chunk_bytes`, or one tile. REQUIRES:
// can_dequantize().
void dequantize_gemm(const Context& context, const ConstTensorView& x,
                     const ops::QuantizedWeight& weight, const ConstTensorView& bias,
                     DType compute_type, ops::MatmulOutput output, const TensorView& y,
                     const DenseGemm& dense, int64_t chunk_bytes = kColumnChunkBytes);

}  // namespace nvllm::cuda
