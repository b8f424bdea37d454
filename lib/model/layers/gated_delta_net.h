// Linear attention by the gated delta rule (Yang et al. 2024, Gated Delta Networks), with a short
// convolution before it and a gated norm behind it: one state for each sequence, however long.
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
    LinearWeight in;   // [hidden] → queries, keys, values, gates of the norm, update, decay
    Tensor conv_taps;  // float32 [taps, channels]
    Tensor a_log;      // float32 [heads]
    Tensor dt_bias;    // alike
    ops::Activation activation = ops::Activation::silu;  // behind the convolution
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
