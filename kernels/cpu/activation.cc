// Functions of the MLP on the CPU, one row at a time.
#include "kernels/ops/cpu_ops.h"

#include <cmath>

#include "kernels/cpu/simd/rows.h"

namespace nvllm::cpu {
namespace {

static_assert(static_cast<int>(ops::Activation::silu) == static_cast<int>(ActivationKind::silu));
static_assert(static_cast<int>(ops::Activation::gelu) == static_cast<int>(ActivationKind::gelu));
static_assert(static_cast<int>(ops::Activation::gelu_tanh) ==
              static_cast<int>(ActivationKind::gelu_tanh));
static_assert(static_cast<int>(ops::Activation::relu) == static_cast<int>(ActivationKind::relu));
static_assert(static_cast<int>(ops::Activation::sigmoid) ==
              static_cast<int>(ActivationKind::sigmoid));
static_assert(static_cast<int>(ops::Activation::identity) ==
              static_cast<int>(ActivationKind::identity));

}  // namespace

void activation(const Context& context, ops::Activation function, const ConstTensorView& x,
                const TensorView& out) {
    const RowIndex source(x);
    const RowIndex target(out);
    const auto kernel = kernels().activation[static_cast<size_t>(function)];
    parallel_rows(context, source.count(), source.width(), [&](int64_t row) {
        kernel(x.as<float>() + source.offset(row), out.as<float>() + target.offset(row),
               source.width());
    });
}

void gated_activation(const Context& context, ops::Activation function, const ConstTensorView& gate,
                      const ConstTensorView& up, const TensorView& out) {
    const RowIndex gates(gate);
    const RowIndex ups(up);
    const RowIndex target(out);
    const auto kernel = kernels().gated_activation[static_cast<size_t>(function)];
    parallel_rows(context, gates.count(), gates.width(), [&](int64_t row) {
        kernel(gate.as<float>() + gates.offset(row), up.as<float>() + ups.offset(row),
               out.as<float>() + target.offset(row), gates.width());
    });
}

void clamped_swiglu(const Context& context, float alpha, float limit, ops::GateOrder order,
                    const ConstTensorView& gate_up, const TensorView& out) {
    const int64_t width = out.dim(1);
    const bool in_pairs = order == ops::GateOrder::pairs;
    const int64_t step = in_pairs ? 2 : 1;
    const int64_t first_up = in_pairs ? 1 : width;
    // An exponential costs about as much as ten of the values that a range counts.
    parallel_rows(context, out.dim(0), width * 10, [&](int64_t row) {
        const float* from = gate_up.as<float>() + row * gate_up.stride(0);
        float* const to = out.as<float>() + row * out.stride(0);
        for (int64_t i = 0; i < width; ++i) {
            const float gate_value = from[step * i];
            const float up_value = from[step * i + first_up];
            const float gate = gate_value > limit ? limit : gate_value;
            float up = up_value > limit ? limit : up_value;
            if (up < -limit) up = -limit;
            to[i] = gate / (1.0f + std::exp(-alpha * gate)) * (up + 1.0f);
        }
    });
}

}  // namespace nvllm::cpu
