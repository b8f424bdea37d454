// Element-wise functions of the MLP and of gates.
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// The names config.json uses: silu; gelu (by erf); gelu_tanh (gelu_new, gelu_pytorch_tanh); relu;
// sigmoid, the logistic function.
enum class Activation : uint8_t { silu, gelu, gelu_tanh, relu, sigmoid };

// out = f(x). activations [tokens, width]; may be the same view.
void activation(const Context& context, Activation function, const ConstTensorView& x,
                const TensorView& out);

// out = f(gate) * up. Activations [tokens, width] each, of one type, rows may be strided; out may
// be gate or up.
void gated_activation(const Context& context, Activation function, const ConstTensorView& gate,
                      const ConstTensorView& up, const TensorView& out);

// out = g / (1 + exp(-alpha g)) * (u + 1) with g = min(gate, limit) and u = up within [-limit,
// limit] (OpenAI 2025, gpt-oss). gate_up: activations [tokens, 2 * width], gate and up of a column
// next to each other; out: the same type [tokens, width]; rows may be strided.
void clamped_swiglu(const Context& context, float alpha, float limit,
                    const ConstTensorView& gate_up, const TensorView& out);

}  // namespace nvllm::ops
