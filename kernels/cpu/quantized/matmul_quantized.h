// Products with quantized weights on the CPU; contracts in kernels/ops/matmul_quantized.h.
#pragma once

#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cpu {

bool can_multiply_quantized(const ops::QuantizedLayout& layout,
                            const ops::ActivationRounding& activations);
size_t quantized_weight_bytes(const ops::QuantizedLayout& layout);
void pack_weight(const Context& context, const ops::QuantizedLayout& layout,
                 const ops::UnpackedQuantizedWeight& plain, const TensorView& packed);
void matmul_quantized(const Context& context, const ConstTensorView& x,
                      const ops::QuantizedWeight& weight, const ConstTensorView& bias,
                      DType compute_type, ops::MatmulOutput output, const TensorView& y);
size_t matmul_quantized_scratch_bytes(int64_t tokens, const ops::QuantizedLayout& layout,
                                      int num_threads);

}  // namespace nvllm::cpu
