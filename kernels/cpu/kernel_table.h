// Fills the table of kernels with the templates over one vector type.
#pragma once

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/row_kernels.h"

namespace nvllm::cpu {

template <class S>
Kernels kernel_table() {
    using Rows = RowKernels<S>;
    using Attention = AttentionKernels<S>;
    using Kind = ActivationKind;
    using B = BFloat16;
    using H = Float16;
    Kernels table = {
        .widen = {Rows::template widen<float>, Rows::template widen<B>, Rows::template widen<H>},
        .narrow = {Rows::template narrow<float>, Rows::template narrow<B>, Rows::template narrow<H>},
        .add = Rows::add,
        .soft_cap = Rows::soft_cap,
        .activation = {Rows::template activation<Kind::silu>, Rows::template activation<Kind::gelu>,
                       Rows::template activation<Kind::gelu_tanh>, Rows::template activation<Kind::relu>},
        .gated_activation = {Rows::template gated_activation<Kind::silu>,
                             Rows::template gated_activation<Kind::gelu>,
                             Rows::template gated_activation<Kind::gelu_tanh>,
                             Rows::template gated_activation<Kind::relu>},
        .rms_norm = {Rows::template rms_norm<float>, Rows::template rms_norm<B>, Rows::template rms_norm<H>},
        .layer_norm = {Rows::template layer_norm<float>, Rows::template layer_norm<B>,
                       Rows::template layer_norm<H>},
        .rope = Rows::rope,
        .matmul = {{matmul_kernels<WidenedFactors<S, float, float>>(), matmul_kernels<WidenedFactors<S, float, B>>(),
                    matmul_kernels<WidenedFactors<S, float, H>>()},
                   {matmul_kernels<WidenedFactors<S, B, float>>(), matmul_kernels<WidenedFactors<S, B, B>>(),
                    matmul_kernels<WidenedFactors<S, B, H>>()},
                   {matmul_kernels<WidenedFactors<S, H, float>>(), matmul_kernels<WidenedFactors<S, H, B>>(),
                    matmul_kernels<WidenedFactors<S, H, H>>()}},
        .lanes = S::lanes,
        .transpose_tile = Attention::transpose_tile,
        .softmax_tile = Attention::softmax_tile,
        .outer_product = Attention::outer_product,
        .scale = Rows::scale,
    };
    return table;
}

}  // namespace nvllm::cpu
