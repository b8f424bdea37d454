// Linear attention by the gated delta rule (Yang et al. 2024, Gated Delta Networks; with a decay of
// each dimension of the keys: Kimi Linear, Moonshot AI 2025), with a short convolution before it
// and a gated norm behind it: one state for each sequence, however long.
#pragma once

#include <cstdint>

#include "kernels/ops/activation.h"
#include "lib/model/layers/linear_attention.h"
#include "lib/model/layers/norm.h"
#include "lib/model/model.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

struct GatedDeltaNet {
    LinearAttentionSizes sizes;
    // What `in` gives lies by key head (queries, keys, values, gates of the norm; then update
    // gates, decay gates), as Qwen3-Next stores it, and not one after another for all heads.
    bool is_by_key_head = false;
    LinearWeight in;  // [hidden] → queries, keys, values, gates of the norm, update, decay
    // Where sizes.gate_rank: what `in` gives for gates of the norm and for decays has this rank,
    // and these make them of it.
    LinearWeight norm_gates;                             // [gate_rank] → [heads * value_dim]
    LinearWeight decays;                                 // [gate_rank] → [heads * key_dim]
    Tensor conv_taps;                                    // float32 [taps, channels]
    Tensor a_log;                                        // float32 [heads]
    Tensor dt_bias;                                      // one for each decay
    ops::Activation activation = ops::Activation::silu;  // behind the convolution
    ops::Activation gate = ops::Activation::silu;        // of the norm
    Norm norm;                                           // over value_dim
    LinearWeight out;                                    // [heads * value_dim] → [hidden]

    // y (+)= attention of x [tokens, hidden] over the state that layer `index` has of each
    // sequence, which becomes that behind this step's tokens.
    void apply(const ForwardContext& batch, int32_t index, const ConstTensorView& x,
               ops::MatmulOutput how, const TensorView& y) const;

    // Float32 values that a slot has for it.
    int64_t state_values() const { return sizes.state(); }
    size_t bytes() const;
};

}  // namespace nvllm
