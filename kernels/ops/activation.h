// Element-wise functions of the MLP and of gates.
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// The names config.json uses: silu; gelu (by erf); gelu_tanh (gelu_new, gelu_pytorch_tanh); relu;
// sigmoid, the logistic function; identity, x itself.
enum class Activation : uint8_t { silu, gelu, gelu_tanh, relu, sigmoid, identity };

// out = f(x). activations [tokens, width]; may be the same view.
void activation(const Context& context, Activation function, const ConstTensorView& x,
                const TensorView& out);

// out = f(gate) * up. Activations [tokens, width] or [tokens, heads, width], of one type, rows may
// be strided; out may be gate or up.
void gated_activation(const Context& context, Activation function, const ConstTensorView& gate,
                      const ConstTensorView& up, const TensorView& out);

// How gates and ups lie in one row: each gate before its up, or all gates before all ups.
enum class GateOrder : uint8_t { pairs, halves };

// out = g / (1 + exp(-alpha g)) * (u + 1) with g = min(gate, limit) and u = up within [-limit,
// limit] (OpenAI 2025, gpt-oss). gate_up: activations [tokens, 2 * width]; out: the same type
// [tokens, width]; rows may be strided.
void clamped_swiglu(const Context& context, float alpha, float limit, GateOrder order,
                    const ConstTensorView& gate_up, const TensorView& out);

}  // namespace nvllm::ops
