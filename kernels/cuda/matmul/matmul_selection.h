// Which kernel computes a matmul: ordered lists of candidates, of which the first that takes a call
// computes it.
//
// Lists with a faster candidate for few or for many rows give a row other bits in another batch, so
// batch-invariant matmuls skip those candidates.
#pragma once

#include <cstdint>

#include "kernels/cuda/quantized/scaled_mm.h"
#include "kernels/cuda/runtime/blas.h"
#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cuda {

struct MatmulCall;
struct QuantizedCall;

// The numbers of rows from which a candidate is faster than those after it in its list.
constexpr int kMaxGemvRows = 8;
constexpr int64_t kMinScaledMmRows = 64;
constexpr int64_t kMinScaledMmIntegerRows = 128;  // our own kernels of integers dequantize nothing
constexpr int64_t kMinDequantizeRows = 128;

// A library of matmuls, as runtime/blas.h has it.
struct GemmLibrary {
    decltype(&multiply_by_library) multiply = nullptr;
    ScaledMmLibrary scaled_mm = {};
};

struct MatmulSettings {
    bool batch_invariant = false;          // a row's bits do not depend on the number of rows
    const GemmLibrary* library = nullptr;  // null: our own kernels alone
};

// The arguments of ops::matmul().
struct DenseMatmul {
    const Context& context;
    const ConstTensorView& x;
    const ConstTensorView& weight;
    const ConstTensorView& bias;
    DType compute_type;
    ops::MatmulOutput output;
    const TensorView& y;
};

// The arguments of ops::matmul_quantized().
struct QuantizedMatmul {
    const Context& context;
    const ConstTensorView& x;
    const ops::QuantizedWeight& weight;
    const ConstTensorView& bias;
    DType compute_type;
    ops::MatmulOutput output;
    const TensorView& y;
};

// Each launches the first candidate that takes the call, and returns its name. Nothing is launched
// for an empty y and in a dry run, in which scratch is taken for each candidate that may be the
// one; the name is "nothing" then.
const char* select_matmul(const DenseMatmul& call, const MatmulSettings& settings);
const char* select_matmul_quantized(const QuantizedMatmul& call, const MatmulSettings& settings);
// Our own kernels of dense matmuls, grouped ones included.
const char* select_gemm(const Context& context, const MatmulCall& call, DType weight_type,
                        DType compute_type);
// Our own kernels that read packed weights. `operand` is the type of x in the call: the compute
// type, or i8 where x and weights are multiplied as integers.
const char* select_gemm_quantized(const Context& context, const QuantizedCall& call,
                                  ops::WeightFormat code, DType operand);

}  // namespace nvllm::cuda
