// Emulated tests of the CUDA normalisations against double precision.
#include "kernels/cuda/ops.h"

#include "../reference.h"
#include "emulated.h"

using namespace nvllm;
using testing::Buffer;

namespace {

struct Case {
    DType activation, weight;
    int64_t tokens, hidden, gap;
};

void check_norms(const Case& test) {
    testing::Machine machine(1);
    testing::Random random(static_cast<uint64_t>(test.hidden));
    const int64_t stride = test.hidden + test.gap;
    Buffer x(test.activation, random.values(test.tokens * stride, 5.0f));
    Buffer weight(test.weight, random.values(test.hidden));
    Buffer bias(test.weight, random.values(test.hidden));
    Buffer out(test.activation, test.tokens * test.hidden);
    const TensorView source = x.matrix(test.tokens, test.hidden, stride);
    const TensorView target = out.view({test.tokens, test.hidden});
    const auto weights = testing::dequantized(weight, 0, test.hidden);
    const auto row = [&](int64_t i) {
        return testing::dequantized(x, i / test.hidden * stride, test.hidden);
    };
    const auto column = [&](int64_t i) { return static_cast<size_t>(i % test.hidden); };
    cuda::rms_norm(machine.context(), source, weight.view({test.hidden}), {1e-5f, 1.0f}, target);
    CHECK(testing::matches(out, test.activation, 4e-6, [&](int64_t i) {
        return reference::rms_norm(row(i), weights, 1e-5, 1.0)[column(i)];
    }));
    cuda::layer_norm(machine.context(), source, weight.view({test.hidden}),
                     bias.view({test.hidden}), 1e-5f, target);
    CHECK(testing::matches(out, test.activation, 1e-5, [&](int64_t i) {
        return reference::layer_norm(row(i), weights, testing::dequantized(bias, 0, test.hidden),
                                     1e-5)[column(i)];
    }));
}

// Bits of a buffer as floats.
std::vector<float> values_of(const Buffer& buffer) {
    std::vector<float> values;
    for (int64_t i = 0; i < buffer.size(); ++i) values.push_back(buffer[i]);
    return values;
}

}  // namespace

TEST_CASE("cuda: norms match double precision in every type and width") {
    under_all_schedules([] {
        for (const DType activation : testing::kFloatTypes) {
            check_norms({activation, DType::bf16, 5, 64, 8});
            check_norms({activation, DType::f32, 2, 37, 3});
            check_norms({activation, activation, 1, 1, 0});
            check_norms({activation, DType::f16, 2, 640, 0});
            check_norms({activation, DType::bf16, 2, 1031, 5});
        }
    });
}

TEST_CASE("cuda: norms of values so small that epsilon counts") {
    testing::Machine machine(1);
    for (const int64_t hidden : {64, 640}) {
        Buffer x(DType::f32, testing::Random(7).values(hidden, 1e-3f));
        Buffer weight(DType::f32, testing::Random(8).values(hidden));
        Buffer out(DType::f32, hidden);
        const ops::RmsNormOptions options{1e-5f, 0.0f};
        cuda::rms_norm(machine.context(), x.view({1, hidden}), weight.view({hidden}), options,
                       out.view({1, hidden}));
        const reference::Values expected = reference::rms_norm(
            testing::dequantized(x, 0, hidden), testing::dequantized(weight, 0, hidden), 1e-5, 0.0);
        CHECK(testing::matches(out, DType::f32, 4e-6,
                               [&](int64_t i) { return expected[static_cast<size_t>(i)]; }));
    }
}

TEST_CASE("cuda: norms of heads in place, rows of rows") {
    testing::Machine machine(1);
    testing::Random random(3);
    Buffer x(DType::bf16, random.values(3 * 100));
    const std::vector<float> before = values_of(x);
    Buffer weight(DType::bf16, random.values(16));
    TensorView heads = x.matrix(3, 64, 100).split_last(4);
    cuda::rms_norm(machine.context(), heads, weight.view({16}), {}, heads);
    for (int64_t token = 0; token < 3; ++token) {
        for (int64_t head = 0; head < 4; ++head) {
            reference::Values row;
            for (int64_t i = 0; i < 16; ++i)
                row.push_back(before[static_cast<size_t>(token * 100 + head * 16 + i)]);
            const auto expected =
                reference::rms_norm(row, testing::dequantized(weight, 0, 16), 1e-6, 0.0);
            for (int64_t i = 0; i < 16; ++i)
                CHECK(testing::close(x[token * 100 + head * 16 + i],
                                     expected[static_cast<size_t>(i)], 1.0 / 256));
        }
        for (int64_t i = 64; i < 100; ++i)
            CHECK(x[token * 100 + i] == before[static_cast<size_t>(token * 100 + i)]);
    }
}

TEST_CASE("cuda: a norm's bits do not depend on alignment") {
    testing::Machine machine(1);
    const int64_t hidden = 1032;
    const std::vector<float> values = testing::Random(9).values(hidden);
    std::vector<float> shifted(static_cast<size_t>(hidden + 1));
    std::copy(values.begin(), values.end(), shifted.begin() + 1);
    Buffer x(DType::f32, values), y(DType::f32, shifted);
    Buffer weight(DType::f32, values);
    Buffer aligned(DType::f32, hidden), odd(DType::f32, hidden);
    cuda::rms_norm(machine.context(), x.view({1, hidden}), weight.view({hidden}), {},
                   aligned.view({1, hidden}));
    TensorView moved = y.view({1, hidden + 1}).columns(1, hidden);
    cuda::rms_norm(machine.context(), moved, weight.view({hidden}), {}, odd.view({1, hidden}));
    CHECK(testing::same_bits(values_of(aligned), values_of(odd)));
}
