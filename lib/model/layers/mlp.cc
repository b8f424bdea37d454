// The order of ops of a feed-forward layer.
#include "lib/model/layers/mlp.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr std::array<std::pair<std::string_view, ops::Activation>, 7> kActivations = {{
    {"silu", ops::Activation::silu},
    {"swish", ops::Activation::silu},
    {"gelu", ops::Activation::gelu},
    {"gelu_new", ops::Activation::gelu_tanh},
    {"gelu_pytorch_tanh", ops::Activation::gelu_tanh},
    {"gelu_tanh", ops::Activation::gelu_tanh},
    {"relu", ops::Activation::relu},
}};

}  // namespace

ops::Activation activation_named(const std::string& name) {
    std::vector<std::string_view> known;
    for (const auto& [spelling, function] : kActivations) {
        if (spelling == name) return function;
        known.push_back(spelling);
    }
    throw Error(ErrorKind::bad_data,
                fmt::format("config.json: the activation \"{}\" is not supported; known are {}",
                            name, fmt::join(known, ", ")));
}

void Mlp::apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
                const TensorView& y) const {
    const TensorView inner = take_activations(context, {x.dim(0), in.out()});
    in.apply(context, x, ops::MatmulOutput::overwrite, inner);
    if (!gated) {
        ops::activation(context, activation, inner, inner);
        down.apply(context, inner, how, y);
        return;
    }
    const int64_t intermediate = in.out() / 2;
    const TensorView gate = inner.columns(0, intermediate);
    ops::gated_activation(context, activation, gate, inner.columns(intermediate, intermediate),
                          gate);
    down.apply(context, gate, how, y);
}

size_t Mlp::scratch_bytes(int64_t tokens, const ScratchTerms& terms) const {
    const size_t inside_ops =
        std::max(in.scratch_bytes(tokens, terms), down.scratch_bytes(tokens, terms));
    return scratch_for_activations(terms, tokens * in.out()) + scratch_for_bytes(inside_ops);
}

}  // namespace nvllm
