// CUDA versions of kernels/ops/matmul_quantized.h; views are checked already.
#pragma once

#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cuda {

// Whether activations of this type are multiplied with such a matrix as it is packed.
bool can_multiply_quantized(const ops::QuantizedLayout& layout,
                            const ops::ActivationRounding& rounding, DType activations);

size_t quantized_weight_bytes(const ops::QuantizedLayout& layout);

void pack_weight(const Context& context, const ops::QuantizedLayout& layout,
                 const ops::UnpackedQuantizedWeight& plain, const TensorView& packed);

void matmul_quantized(const Context& context, const ConstTensorView& x,
                      const ops::QuantizedWeight& weight, const ConstTensorView& bias,
                      DType compute_type, ops::MatmulOutput output, const TensorView& y);

size_t matmul_quantized_scratch_bytes(int64_t tokens, const ops::QuantizedLayout& layout,
                                      int num_threads);

}  // namespace nvllm::cuda
