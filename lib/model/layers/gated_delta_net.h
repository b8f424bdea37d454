// Linear attention by the gated delta rule (Yang et al. 2024, Gated Delta Networks), with a short
// convolution before it and a gated norm behind it: one state for each sequence, however long.
#pragma once

#include <cstdint>

#include "kernels/ops/activation.h"
#include "lib/model/layers/norm.h"
#include "lib/model/model.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

struct DeltaNetSizes {
    int64_t key_heads = 0;
    int64_t heads = 0;  // of values and of the state; a multiple of key_heads
    int64_t key_dim = 0;
    int64_t value_dim = 0;
    int64_t taps = 0;  // of the convolution

    int64_t keys() const { return key_heads * key_dim; }
    int64_t values() const { return heads * value_dim; }
    // Convolved together: queries, keys, values.
    int64_t channels() const { return 2 * keys() + values(); }
    // Float32 values of a sequence's state: the last inputs of the convolution, then a matrix for
    // each head.
    int64_t conv_state() const { return (taps - 1) * channels(); }
    int64_t state() const { return conv_state() + heads * key_dim * value_dim; }
};

struct GatedDeltaNet {
    DeltaNetSizes sizes;
    // What `in` gives lies by key head (queries, keys, values, gates of the norm; then update
    // gates, decay gates), as Qwen3-Next stores it, and not one after another for all heads.
    bool is_by_key_head = false;
    LinearWeight in;     // [hidden] → queries, keys, values, gates of the norm, update, decay
    Tensor conv_weight;  // float32 [taps, channels]
    Tensor a_log;        // float32 [heads]
    Tensor dt_bias;      // alike
    ops::Activation activation = ops::Activation::silu;  // behind the convolution
    Norm norm;                                           // over value_dim
    LinearWeight out;                                    // [heads * value_dim] → [hidden]

    // y (+)= attention of x [tokens, hidden] over the state that layer `index` has of each
    // sequence, which becomes that behind this step's tokens.
    void apply(const ForwardContext& batch, int32_t index, const ConstTensorView& x,
               ops::MatmulOutput how, const TensorView& y) const;

    size_t bytes() const;
};

}  // namespace nvllm
