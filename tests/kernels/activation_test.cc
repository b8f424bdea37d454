// Tests of the MLP's functions against double precision.
#include "kernels/ops/activation.h"

#include <cmath>
#include <limits>

#include "reference.h"
#include "testing.h"

using namespace nvllm;
using ops::Activation;

namespace {

constexpr Activation kAll[] = {Activation::silu, Activation::gelu,    Activation::gelu_tanh,
                               Activation::relu, Activation::sigmoid, Activation::identity};

std::vector<float> interesting_values() {
    std::vector<float> values = testing::Random(7).values(3000, 10.0f);
    for (float magnitude = 1e-30f; magnitude < 1e30f; magnitude *= 1.7f) {
        values.push_back(magnitude);
        values.push_back(-magnitude);
    }
    values.push_back(0.0f);
    return values;
}

}  // namespace

TEST_CASE("activations are right to a few units in the last place") {
    testing::Machine machine;
    std::vector<float> x = interesting_values();
    const auto count = static_cast<int64_t>(x.size());
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const Activation function : kAll) {
            std::vector<float> out(x.size());
            ops::activation(machine.context(), function, testing::view(x, {1, count}),
                            testing::view(out, {1, count}));
            for (size_t i = 0; i < x.size(); ++i) {
                const double expected = reference::activation(function, x[i]);
                CAPTURE(x[i]);
                // On the far negative side the exponent, in float32, carries its rounding error
                // into the result.
                const double relative = x[i] < -3 ? 2e-5 : 1e-6;
                REQUIRE(testing::close(out[i], expected, relative, 1e-30));
            }
        }
    });
}

TEST_CASE("infinities and NaN") {
    testing::Machine machine(1);
    const float infinity = std::numeric_limits<float>::infinity();
    testing::for_each_isa([&](cpu::Isa) {
        for (const Activation function : kAll) {
            std::vector<float> x = {infinity, std::numeric_limits<float>::quiet_NaN()};
            ops::activation(machine.context(), function, testing::view(x, {2}),
                            testing::view(x, {2}));
            CHECK(x[0] == (function == Activation::sigmoid ? 1.0f : infinity));
            CHECK(std::isnan(x[1]));
        }
    });
}

TEST_CASE("gated activation on strided halves, at odd widths, and in place") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const Activation function : kAll) {
            for (const int64_t width : {1, 5, 8, 16, 19, 64, 300}) {
                const int64_t tokens = 5;
                std::vector<float> both = testing::Random(9).values(tokens * 2 * width, 4.0f);
                std::vector<float> out(static_cast<size_t>(tokens * width));
                const TensorView gate = testing::view(both, {tokens, 2 * width}).columns(0, width);
                const TensorView up =
                    testing::view(both, {tokens, 2 * width}).columns(width, width);
                ops::gated_activation(machine.context(), function, gate, up,
                                      testing::view(out, {tokens, width}));
                std::vector<float> copy = both;
                const TensorView copied = testing::view(copy, {tokens, 2 * width});
                ops::gated_activation(machine.context(), function, copied.columns(0, width),
                                      copied.columns(width, width), copied.columns(0, width));
                for (int64_t t = 0; t < tokens; ++t) {
                    for (int64_t i = 0; i < width; ++i) {
                        const auto at = static_cast<size_t>(t * 2 * width + i);
                        const double expected = reference::activation(function, both[at]) *
                                                both[at + static_cast<size_t>(width)];
                        const float actual = out[static_cast<size_t>(t * width + i)];
                        REQUIRE(testing::close(actual, expected, 2e-6, 1e-30));
                        REQUIRE(actual == copy[at]);
                    }
                }
            }
        }
    });
}

void check_clamped(ops::GateOrder order) {
    const bool in_pairs = order == ops::GateOrder::pairs;
    testing::Machine machine;
    for (const int64_t width : {1, 7, 33}) {
        std::vector<float> x = testing::Random(9).values(3 * (2 * width + 1), 9.0f);
        std::vector<float> out(static_cast<size_t>(3 * (width + 2)), 5.0f);
        ops::clamped_swiglu(machine.context(), 1.702f, 7.0f, order,
                            testing::matrix(x, 3, 2 * width, 2 * width + 1),
                            testing::matrix(out, 3, width, width + 2));
        for (int64_t i = 0; i < 3 * (width + 2); ++i) {
            const int64_t row = i / (width + 2), column = i % (width + 2);
            if (column >= width) {
                CHECK(out[static_cast<size_t>(i)] == 5.0f);
                continue;
            }
            const auto at =
                static_cast<size_t>(row * (2 * width + 1) + (in_pairs ? 2 : 1) * column);
            const double gate = std::min(x[at], 7.0f);
            const double up =
                std::clamp(x[at + (in_pairs ? 1 : static_cast<size_t>(width))], -7.0f, 7.0f);
            const double expected = gate / (1.0 + std::exp(-double{1.702f} * gate)) * (up + 1.0);
            CHECK(testing::close(out[static_cast<size_t>(i)], expected, 1e-6));
        }
    }
}

TEST_CASE("clamped_swiglu limits gate and up, which lie in pairs or in halves") {
    check_clamped(ops::GateOrder::pairs);
    check_clamped(ops::GateOrder::halves);
}
