// The feed-forward layer: gated (down(f(gate x) * up x)) or plain (down(f(up x))).
#pragma once

#include "lib/model/layers/mlp_function.h"
#include "lib/model/layers/scratch.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

struct Mlp {
    bool gated = true;
    MlpFunction activation;
    LinearWeight in;    // [hidden] → gate, then up: [2 * intermediate]; plain: [intermediate]
    LinearWeight down;  // [intermediate] → [hidden]

    // y (+)= mlp(x). x, y: activations [tokens, hidden].
    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
               const TensorView& y) const;

    size_t bytes() const { return in.bytes() + down.bytes(); }
};

}  // namespace nvllm
