// The feed-forward layer: gated (down(f(gate x) * up x)) or plain (down(f(up x))).
#pragma once

#include <optional>

#include "lib/model/layers/mlp_function.h"
#include "lib/model/layers/scratch.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

// ops::clamped_swiglu()
struct ClampedSwiglu {
    float alpha = 1.702f;
    float limit = 7.0f;
    ops::GateOrder order = ops::GateOrder::pairs;  // of the rows of `in`
};

struct Mlp {
    bool gated = true;
    // Instead of `activation`.
    std::optional<ClampedSwiglu> clamped;
    MlpFunction activation;
    LinearWeight in;    // [hidden] → gate, then up: [2 * intermediate]; plain: [intermediate]
    LinearWeight down;  // [intermediate] → [hidden]
    float gate_scale = 1.0f;  // on what f reads, of a gated layer
    float out_scale = 1.0f;   // on what `down` gives

    // y (+)= mlp(x). x, y: activations [tokens, hidden].
    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
               const TensorView& y) const;

    size_t bytes() const { return in.bytes() + down.bytes(); }
    int32_t rank_sums() const { return down.sums_ranks(); }
};

}  // namespace nvllm
