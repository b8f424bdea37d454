// The table of functions.
#include "lib/model/layers/mlp_function.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <vector>

#include "kernels/error.h"

namespace nvllm {
namespace {

struct NamedFunction {
    std::string_view name;
    MlpFunction function;
};

constexpr std::array<NamedFunction, 8> kFunctions = {{
    {"silu", {ops::Activation::silu}},
    {"swish", {ops::Activation::silu}},
    {"gelu", {ops::Activation::gelu}},
    {"gelu_new", {ops::Activation::gelu_tanh}},
    {"gelu_pytorch_tanh", {ops::Activation::gelu_tanh}},
    {"gelu_tanh", {ops::Activation::gelu_tanh}},
    {"relu", {ops::Activation::relu}},
    {"relu2", {ops::Activation::relu, true}},
}};

}  // namespace

MlpFunction mlp_function_named(const std::string& name) {
    std::vector<std::string_view> known;
    for (const NamedFunction& row : kFunctions) {
        if (row.name == name) return row.function;
        known.push_back(row.name);
    }
    throw Error(ErrorKind::bad_data,
                fmt::format("config.json: the activation \"{}\" is not supported; known are {}",
                            name, fmt::join(known, ", ")));
}

// A square is the function times its argument, because relu is 0 where the argument is negative.
void MlpFunction::apply(const Context& context, const TensorView& x) const {
    if (is_squared) {
        ops::gated_activation(context, function, x, x, x);
    } else {
        ops::activation(context, function, x, x);
    }
}

void MlpFunction::apply_gated(const Context& context, const TensorView& gate,
                              const TensorView& up) const {
    if (is_squared) ops::gated_activation(context, function, gate, up, up);
    ops::gated_activation(context, function, gate, up, gate);
}

}  // namespace nvllm
