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
    struct PartScales {
        float gates = 1.0f;
        float values = 1.0f;
        float keys = 1.0f;
        float queries = 1.0f;
        float steps = 1.0f;
    };

    LinearAttentionSizes sizes;  // key_heads: groups; key_dim: of a state
    LinearWeight in;             // [hidden] → gates, values, keys, queries, steps
    // Of values, keys, queries in this order.
    Tensor conv_taps;                                    // float32 [taps, channels]
    Tensor conv_bias;                                    // float32 [channels]; may be empty
    Tensor a_log;                                        // float32 [heads]
    Tensor dt_bias;                                      // alike
    Tensor skip;                                         // alike: "D"
    float least_step = 0.0f;                             // of ops::GateWeights
    ops::Activation activation = ops::Activation::silu;  // behind the convolution
    std::vector<Norm> norms;                             // of each group's values; empty: none
    bool norm_before_gate = false;
    LinearWeight out;        // [heads * value_dim] → [hidden]
    float in_scale = 1.0f;   // on what `in` reads
    PartScales part_scales;  // on what it gives
    float out_scale = 1.0f;  // on what `out` gives

    // As GatedDeltaNet::apply().
    void apply(const ForwardContext& batch, int32_t index, const ConstTensorView& x,
               ops::MatmulOutput how, const TensorView& y) const;

    int64_t state_values() const { return sizes.state(); }
    size_t bytes() const;

  private:
    TensorView project(const Context& context, const ConstTensorView& x) const;
    void normalise(const Context& context, const TensorView& result) const;
};

}  // namespace nvllm
