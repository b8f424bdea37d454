// The function between the matrices of a feed-forward layer.
#pragma once

#include <string>

#include "kernels/ops/activation.h"

namespace nvllm {

struct MlpFunction {
    ops::Activation function = ops::Activation::silu;
    bool is_squared = false;  // of relu: relu2 (So et al. 2021, Primer)

    // x = f(x). Activations [tokens, width].
    void apply(const Context& context, const TensorView& x) const;
    // gate = f(gate) * up; what was in `up` is lost. Activations [tokens, width] each.
    void apply_gated(const Context& context, const TensorView& gate, const TensorView& up) const;
};

// The function that config.json means. Throws bad_data naming those that are known.
MlpFunction mlp_function_named(const std::string& name);

}  // namespace nvllm
