// CUDA versions of kernels/ops/moe.h; views are checked already.
#pragma once

#include "kernels/ops/moe.h"

namespace nvllm::cuda {

void route(const Context& context, const ConstTensorView& logits, bool normalize,
           const TensorView& experts, const TensorView& weights);

void sort_by_expert(const Context& context, const ConstTensorView& experts,
                    const TensorView& starts, const TensorView& order, const TensorView& tokens);

void grouped_matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& starts,
                    const ConstTensorView& weight, DType compute_type, const TensorView& y);

void add_expert_outputs(const Context& context, const ConstTensorView& x,
                        const ConstTensorView& order, const ConstTensorView& weights,
                        ops::MatmulOutput output, const TensorView& y);

void add_weighted_rows(const Context& context, const ConstTensorView& x,
                       const ConstTensorView& rows, const ConstTensorView& weights,
                       const TensorView& y);

size_t moe_scratch_bytes(int64_t tokens, int64_t per_token, int64_t in, int num_threads);

}  // namespace nvllm::cuda
