// Fills the table of kernels with the templates over one vector type.
#pragma once

#include "kernels/cpu/attention/attention_kernels.h"
#include "kernels/cpu/attention/attention_matmuls.h"
#include "kernels/cpu/linear_attention/linear_attention_kernels.h"
#include "kernels/cpu/lora_kernels.h"
#include "kernels/cpu/matmul/matmul_kernels.h"
#include "kernels/cpu/quantized/quantized_kernels.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/probe_kernels.h"

namespace nvllm::cpu {

// Products of x rounded to X, by type of the weights.
template <class S, typename X>
MatmulByWeight matmul_row() {
    return {matmul_kernels<UpcastOperands<S, float>, X>(), matmul_kernels<DequantizedPairs<S>, X>(),
            matmul_kernels<UpcastOperands<S, Float16>, X>()};
}

// S: a set of vectors; C: how it upcasts quantized values.
template <class S, class C>
Kernels kernel_table() {
    using Rows = RowKernels<S>;
    using Attention = AttentionKernels<S>;
    using Linear = LinearAttentionKernels<S>;
    using Lora = LoraKernels<S>;
    using Kind = ActivationKind;
    using B = BFloat16;
    using H = Float16;
    Kernels table = {
        .upcast = {Rows::template upcast<float>, Rows::template upcast<B>,
                   Rows::template upcast<H>},
        .narrow = {Rows::template narrow<float>, Rows::template narrow<B>,
                   Rows::template narrow<H>},
        .narrow_f8 = Rows::template narrow_scaled<Float8E4M3>,
        .narrow_i8 = Rows::template narrow_scaled<int8_t>,
        .round_i8 = Rows::round_i8,
        .magnitude = Rows::magnitude,
        .add = Rows::add,
        .soft_cap = Rows::soft_cap,
        .activation = {Rows::template activation<Kind::silu>, Rows::template activation<Kind::gelu>,
                       Rows::template activation<Kind::gelu_tanh>,
                       Rows::template activation<Kind::relu>,
                       Rows::template activation<Kind::sigmoid>,
                       Rows::template activation<Kind::identity>},
        .gated_activation = {Rows::template gated_activation<Kind::silu>,
                             Rows::template gated_activation<Kind::gelu>,
                             Rows::template gated_activation<Kind::gelu_tanh>,
                             Rows::template gated_activation<Kind::relu>,
                             Rows::template gated_activation<Kind::sigmoid>,
                             Rows::template gated_activation<Kind::identity>},
        .rms_norm = {Rows::template rms_norm<float>, Rows::template rms_norm<B>,
                     Rows::template rms_norm<H>},
        .layer_norm = {Rows::template layer_norm<float>, Rows::template layer_norm<B>,
                       Rows::template layer_norm<H>},
        .l2_norm = Linear::l2_norm,
        .conv_row = Linear::conv_row,
        .linear_attention = Linear::linear_attention,
        .lora_dots = {Lora::template dots<float>, Lora::template dots<B>, Lora::template dots<H>},
        .lora_sums = {Lora::template sums<float>, Lora::template sums<B>, Lora::template sums<H>},
        .rope = Rows::rope,
        .matmul = {matmul_row<S, float>(), matmul_row<S, B>(), matmul_row<S, H>()},
        .quantized = quantized_kernels<C>(),
        .lanes = S::lanes,
        .softmax_tile = Attention::softmax_tile,
        .merge_softmax = Attention::merge_softmax,
        .attention = {attention_matmuls<SingleOperands<S, float>>(),
                      attention_matmuls<SingleOperands<S, B>>(),
                      attention_matmuls<SingleOperands<S, H>>(),
                      attention_matmuls<SingleOperands<S, Float8E4M3>>(),
                      attention_matmuls<SingleOperands<S, int8_t>>()},
        .attention_vnni_pairs = {},
        .scale_tile = Attention::scale_tile,
        .scale = Rows::scale,
        .read_one_stream = ProbeKernels<S>::template read_memory<1>,
        .read_four_streams = ProbeKernels<S>::template read_memory<4>,
        .float32_loop = ProbeKernels<S>::float32_loop,
        .bfloat16_loop = ProbeKernels<S>::float32_loop,
    };
    return table;
}

}  // namespace nvllm::cpu
