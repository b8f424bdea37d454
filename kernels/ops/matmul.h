// Matmuls of activations with weights.
#pragma once

#include <span>

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// What happens to the output beside the product.
enum class MatmulOutput : uint8_t {
    overwrite,   // y = x W^T + bias
    accumulate,  // y += x W^T + bias; the residual connection
};

// y[tokens, out] = x[tokens, in] · weight[out, in]^T (+ bias[out]).
//
//   x       float32 [tokens, in], rows may be strided; on a device any float type
//   weight  float32, bfloat16 or float16 [out, in], contiguous rows as a checkpoint stores them
//   bias    same choice of types [out], or a view with data == nullptr
//   y       float32 or the type of x [tokens, out], rows may be strided
//
// On a device weights and bias have the compute type, and so has x unless it is float32.
//
// `compute_type` is the type the factors have when they are multiplied: with bfloat16 or float16 x
// is rounded to that type first, with float32 it is not; weights are upcast exactly. Sums are
// float32 in one written order that depends on `in`, the types and the instruction set alone: never
// on tokens, out, the other rows, or the number of threads.
//
// Order of the sum over k, with L lanes (16 in AVX-512, 8 in AVX2, 4 in scalar): lane l adds the
// products k = l, l + L, l + 2 L, ... in that order by fused multiply-add (scalar: multiply, then
// add). With bfloat16 weights a lane takes pairs instead: k = 2 l, 2 l + 1, 2 L + 2 l, 2 L + 2 l +
// 1, ...; AVX-512 BF16 adds both products of a pair in one instruction. After every 1,024 values of
// k the lanes are added as a balanced binary tree (l with l + L / 2, and so on), and that sum is
// added to those before it; they begin with y where the product is accumulated, and end with the
// bias. A tail is padded with zeros. With AMX and bfloat16 operands on both sides there are no
// lanes: of each 32 values of k those at even places are summed by fused multiply-adds in their
// order, so are those at odd places, and both together are added to the sum, with subnormal numbers
// as zeros.
void matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
            const ConstTensorView& bias, DType compute_type, MatmulOutput output,
            const TensorView& y);

// One of the matrices that are multiplied with the same x.
struct MatmulWeight {
    ConstTensorView weight;  // [out, in]
    ConstTensorView bias;    // [out], or a view with data == nullptr
};

// The same by weights of one type whose columns lie side by side in y: float32 or the type of x
// [tokens, the sum of their out]. Values are those of matmul() by each; on the CPU x is prepared
// once and threads meet once for all.
void fused_matmul(const Context& context, const ConstTensorView& x,
                  std::span<const MatmulWeight> weights, DType compute_type, MatmulOutput output,
                  const TensorView& y);

}  // namespace nvllm::ops
