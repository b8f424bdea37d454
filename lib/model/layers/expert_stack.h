// The matrices of all experts of a layer one behind another, where a device multiplies them
// together: routing, matmuls and sums without a wait for the host.
#pragma once

#include <cstdint>
#include <span>

#include "lib/model/layers/mlp_function.h"
#include "lib/model/layers/routing.h"
#include "lib/model/layers/scratch.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

// What one expert consists of in a checkpoint: down(f(gate x) * up x).
struct ExpertLinears {
    LinearSpec gate;
    LinearSpec up;
    LinearSpec down;
};

struct ExpertStack {
    MlpFunction activation;
    DType compute_type = DType::f32;
    Tensor in;               // [experts, 2 * intermediate, hidden]: gate, then up
    Tensor down;             // [experts, hidden, intermediate]
    int32_t in_target = -1;  // of LoraTargets; -1: adapters do not change it
    int32_t down_target = -1;

    // y (+)= the weighted sum of each token's experts, added in ascending order. logits: float32
    // [tokens, experts]; x, y: activations [tokens, hidden]. REQUIRES: a plain routing.
    void apply(const Context& context, const ConstTensorView& logits, const Routing& routing,
               const ConstTensorView& x, ops::MatmulOutput how, const TensorView& y) const;

    int64_t num_experts() const { return in.view().dim(0); }
    size_t bytes() const { return in.bytes() + down.bytes(); }
};

// Whether the source's device has the ops for it, and all experts are plain matrices.
bool can_stack(const WeightSource& source, std::span<const ExpertLinears> experts);
// REQUIRES: can_stack(); experts of equal shapes.
ExpertStack load_expert_stack(WeightSource& source, std::span<const ExpertLinears> experts,
                              MlpFunction activation);

}  // namespace nvllm
