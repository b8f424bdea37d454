// Low-rank adapters of linears (Hu et al. 2021, LoRA), many of them in one batch: what a row's own
// adapter adds to a linear, scale * B (A x) + bias.
//
// Two ops a linear, whatever adapters and ranks its rows have, as Punica's SGMV and BGMV do it
// (Chen et al. 2023). No bit of a row depends on the other rows or their adapters. A linear may
// have several parts, whose outputs lie side by side and of which each has matrices of its own.
#pragma once

#include <cstdint>

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

constexpr int64_t kMaxLoraRank = 256;

// What one adapter adds to one part of a linear.
struct LoraPair {
    const void* a = nullptr;      // [rank, in]
    const void* b = nullptr;      // [rank, out]: B transposed
    const float* bias = nullptr;  // [out]; null: none
    int64_t out = 0;              // 0: the adapter leaves the part as it is
    int64_t first_column = 0;     // of the part, in the linear's outputs
    int32_t rank = 0;             // 0: there is only a bias
    float scale = 1.0f;           // of B (A x), not of the bias
    DType dtype = DType::f32;     // of a and b: float32, bfloat16 or float16
};

// What all adapters add to one linear. Slots are numbered from 1: slot 0 is no adapter.
struct LoraLinear {
    const LoraPair* pairs = nullptr;  // [slots, parts], where ops read them
    int64_t slots = 0;
    int64_t parts = 0;
    int64_t max_rank = 0;  // of all pairs, at most
};

// inner[t, p, r] = scale * A[r] · x[t], A of part p of the row's slot, r below its rank. Nothing
// else of `inner` is written.
// x: activations [tokens, in], rows may be strided; slots: int32 [tokens], each in [0, slots];
// inner: float32 [tokens, parts, max_rank].
void lora_shrink(const Context& context, const ConstTensorView& x, const ConstTensorView& slots,
                 const LoraLinear& linear, const TensorView& inner);

// y[t, first_column + o] += bias[o] + sum over r of inner[t, p, r] * B[o, r], in ascending order of
// r, for each part p of the row's slot; rows of slot 0 are not touched.
// inner, slots: as above; y: activations [tokens, outputs], rows may be strided.
void lora_expand(const Context& context, const ConstTensorView& inner, const ConstTensorView& slots,
                 const LoraLinear& linear, const TensorView& y);

// Slots of rows that are choices of experts, where each slot has adapters of each expert: out[i] =
// 0 where the choice order[i] is of a token of slot 0, else (its slot - 1) * num_experts + its
// expert + 1. slots: int32 [tokens]; experts: int32 [tokens, per_token]; order, out: int32
// [choices], as ops::sort_by_expert() has them.
void lora_expert_slots(const Context& context, const ConstTensorView& slots,
                       const ConstTensorView& experts, const ConstTensorView& order,
                       int64_t num_experts, const TensorView& out);

// y[t] = x[t] for the rows of this slot.
// x, y: activations of one type [tokens, width], rows may be strided; slots: as above.
void lora_select(const Context& context, const ConstTensorView& x, const ConstTensorView& slots,
                 int32_t slot, const TensorView& y);

}  // namespace nvllm::ops
