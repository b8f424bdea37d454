// Mamba-2 (Dao and Gu 2024): a short convolution, linear attention by addition whose queries and
// keys are shared by groups of heads, and a norm behind a gate.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops/activation.h"
#include "lib/model/layers/linear_attention.h"
#include "lib/model/layers/norm.h"
#include "lib/model/model.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

struct Mamba2 {
    LinearAttentionSizes sizes;  // key_heads: groups; key_dim: of a state
    LinearWeight in;             // [hidden] → gates, values, keys, queries, steps
    // Of values, keys, queries in this order.
    Tensor conv_taps;                                    // float32 [taps, channels]
    Tensor conv_bias;                                    // float32 [channels]; may be empty
    Tensor a_log;                                        // float32 [heads]
    Tensor dt_bias;                                      // alike
    Tensor skip;                                         // alike: "D"
    ops::Activation activation = ops::Activation::silu;  // behind the convolution
    std::vector<Norm> norms;                             // of each group's values
    LinearWeight out;                                    // [heads * value_dim] → [hidden]

    // As GatedDeltaNet::apply().
    void apply(const ForwardContext& batch, int32_t index, const ConstTensorView& x,
               ops::MatmulOutput how, const TensorView& y) const;

    int64_t state_values() const { return sizes.state(); }
    size_t bytes() const;
};

}  // namespace nvllm
