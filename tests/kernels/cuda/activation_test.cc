// Emulated tests of the MLP's functions on CUDA against double precision.
#include "kernels/cuda/ops.h"

#include <cmath>

#include "../reference.h"
#include "emulated.h"

using namespace nvllm;
using testing::Buffer;

namespace {

constexpr ops::Activation kFunctions[] = {ops::Activation::silu,      ops::Activation::gelu,
                                          ops::Activation::gelu_tanh, ops::Activation::relu,
                                          ops::Activation::sigmoid,   ops::Activation::identity};

// What a function is so far from zero, and at zero.
float limit_of(ops::Activation function, float x) {
    if (function == ops::Activation::identity) return x;
    if (function != ops::Activation::sigmoid) return x > 0.0f ? x : 0.0f;
    return x == 0.0f ? 0.5f : x > 0.0f ? 1.0f : 0.0f;
}

void check_functions(DType dtype, int64_t tokens, int64_t width, int64_t gap) {
    testing::Machine machine(1);
    const int64_t stride = 2 * width + gap;
    Buffer both(dtype, testing::Random(5).values(tokens * stride, 20.0f));
    Buffer out(dtype, tokens * width);
    const TensorView all = both.matrix(tokens, 2 * width, stride);
    const auto gate = [&](int64_t i) { return both[i / width * stride + i % width]; };
    const auto up = [&](int64_t i) { return both[i / width * stride + width + i % width]; };
    for (const ops::Activation function : kFunctions) {
        cuda::activation(machine.context(), function, all.columns(0, width),
                         out.view({tokens, width}));
        CHECK(testing::matches(
            out, dtype, 1e-6, [&](int64_t i) { return reference::activation(function, gate(i)); }));
        cuda::gated_activation(machine.context(), function, all.columns(0, width),
                               all.columns(width, width), out.view({tokens, width}));
        CHECK(testing::matches(out, dtype, 2e-5, [&](int64_t i) {
            return reference::activation(function, gate(i)) * up(i);
        }));
    }
}

}  // namespace

TEST_CASE("cuda: activations match double precision") {
    under_all_schedules([] {
        for (const DType dtype : testing::kFloatTypes) {
            check_functions(dtype, 3, 64, 0);
            check_functions(dtype, 2, 37, 3);
            check_functions(dtype, 1, 2056, 8);
        }
    });
}

TEST_CASE("cuda: activations far from zero") {
    testing::Machine machine(1);
    Buffer x(DType::f32, std::vector<float>{-1e30f, -200.0f, -0.0f, 200.0f, 1e30f});
    Buffer out(DType::f32, 5);
    for (const ops::Activation function : kFunctions) {
        cuda::activation(machine.context(), function, x.view({5}), out.view({5}));
        for (int64_t i = 0; i < 5; ++i) {
            CHECK(testing::close(out[i], limit_of(function, x[i]), 1e-6));
        }
    }
}

TEST_CASE("cuda: activations keep what is no number") {
    testing::Machine machine(1);
    Buffer x(DType::f32, std::vector<float>{NAN, 1.0f, INFINITY});
    Buffer out(DType::f32, 3);
    for (const ops::Activation function : kFunctions) {
        cuda::activation(machine.context(), function, x.view({3}), out.view({3}));
        CHECK(std::isnan(out[0]));
        CHECK(std::isfinite(out[1]));
        CHECK(out[2] == limit_of(function, INFINITY));
    }
}

void check_clamped(ops::GateOrder order) {
    const bool in_pairs = order == ops::GateOrder::pairs;
    testing::Machine machine(1);
    under_all_schedules([&] {
        for (const DType dtype : testing::kFloatTypes) {
            for (const int64_t width : {1, 24, 131}) {
                const int64_t stride = 2 * width + 8;
                Buffer x(dtype, testing::Random(9).values(3 * stride, 9.0f));
                Buffer out(dtype, 3 * width);
                cuda::clamped_swiglu(machine.context(), 1.702f, 7.0f, order,
                                     x.matrix(3, 2 * width, stride), out.view({3, width}));
                CHECK(testing::matches(out, dtype, 2e-6, [&](int64_t i) {
                    const int64_t at = i / width * stride + (in_pairs ? 2 : 1) * (i % width);
                    const double gate = std::min(x[at], 7.0f);
                    const double up = std::clamp(x[at + (in_pairs ? 1 : width)], -7.0f, 7.0f);
                    return gate / (1.0 + std::exp(-double{1.702f} * gate)) * (up + 1.0);
                }));
            }
        }
    });
}

TEST_CASE("cuda: clamped_swiglu limits gate and up, which lie in pairs or in halves") {
    check_clamped(ops::GateOrder::pairs);
    check_clamped(ops::GateOrder::halves);
}
