// CUDA versions of kernels/ops/elementwise.h; views are checked already.
#pragma once

#include "kernels/ops/elementwise.h"

namespace nvllm::cuda {

void add(const Context& context, const ConstTensorView& x, const TensorView& y);
void soft_cap(const Context& context, float cap, const TensorView& x);
void gather_rows(const Context& context, const ConstTensorView& x, const ConstTensorView& rows,
                 const TensorView& out);
void convert(const Context& context, const ConstTensorView& x, const TensorView& out);
void fill_random(const Context& context, uint64_t key, const ConstTensorView& table,
                 const TensorView& out);

}  // namespace nvllm::cuda
