// Layers of experts: the choice of experts, the order of rows by expert, products of many experts
// at once, and the weighted sum of what they computed.
//
// A choice is one token with one of its experts; choices are numbered token * per_token + rank.
#pragma once

#include "kernels/context.h"
#include "kernels/ops/matmul.h"
#include "kernels/view.h"

namespace nvllm::ops {

// The `experts.dim(1)` most probable experts of each token, best first and of equals the first, and
// their probabilities, which are scaled to sum to 1 when `normalize` is set.
// logits: activations [tokens, experts], rows may be strided; experts: int32 [tokens, per_token];
// weights: float32 alike; both contiguous. per_token <= experts <= kMaxExperts.
void route(const Context& context, const ConstTensorView& logits, bool normalize,
           const TensorView& experts, const TensorView& weights);
constexpr int64_t kMaxExperts = 1024;

// The choices in the order of their experts, those of an expert ascending: those of expert e are
// order[starts[e]] ... order[starts[e + 1] - 1]; tokens[i] is the token of order[i].
// experts: int32 [tokens, per_token], each in [0, num experts); starts: int32 [experts + 1]; order,
// tokens: int32 [tokens * per_token].
void sort_by_expert(const Context& context, const ConstTensorView& experts,
                    const TensorView& starts, const TensorView& order, const TensorView& tokens);

// y[i] = x[i] · weight[e]^T for the rows i of [starts[e], starts[e + 1]), with the arithmetic of
// matmul(). x: activations [rows, in]; weight: [experts, out, in], experts may be apart; y: the
// type of x or float32 [rows, out].
void grouped_matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& starts,
                    const ConstTensorView& weight, DType compute_type, const TensorView& y);

// y[t] (+)= the sum over the choices of token t of weights[choice] * x[i], where order[i] is the
// choice: in ascending order of i, which is that of experts. x, y: activations of one type
// [tokens * per_token, hidden] and [tokens, hidden]; weights: float32 [tokens, per_token].
void add_expert_outputs(const Context& context, const ConstTensorView& x,
                        const ConstTensorView& order, const ConstTensorView& weights,
                        MatmulOutput output, const TensorView& y);

// y[rows[i]] += weights[i] * x[i].
// x: activations [count, width]; rows: int32 [count], all different, each a row of y; weights:
// float32 [count]; y: the type of x [tokens, width]; rows of both may be strided.
void add_weighted_rows(const Context& context, const ConstTensorView& x,
                       const ConstTensorView& rows, const ConstTensorView& weights,
                       const TensorView& y);

}  // namespace nvllm::ops
