// Products of many rows with quantized weights by their codes, where weights and rows of x have a
// scale each: a library multiplies the codes.
#pragma once

#include "kernels/cuda/runtime/blas.h"
#include "kernels/cuda/quantized/matmul_widened.h"
#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cuda {

// What multiplies matrices of codes.
struct CodeLibrary {
    bool (*takes)(const Context& context, const CodeProduct& product);
    void (*multiply)(const Context& context, const CodeProduct& product);
};

// Codes of float8 by such, and of int8 by int8, each sum scaled once; integers' sums are exact.
// False, with nothing done, where others are given, rows are few, or the library takes none.
// Columns are taken by slabs: their codes have at most `slab_bytes`, and so have sums of integers.
bool multiply_as_codes(const Context& context, const ConstTensorView& x,
                       const ops::QuantizedWeight& weight, const ConstTensorView& bias,
                       ops::MatmulOutput output, const TensorView& y, const CodeLibrary& library,
                       int64_t slab_bytes = kSlabBytes);

// 0 where products with such a matrix are never of codes.
size_t codes_scratch_bytes(int64_t tokens, const ops::QuantizedLayout& layout);

}  // namespace nvllm::cuda
