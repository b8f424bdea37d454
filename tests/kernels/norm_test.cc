// Tests of the normalisations against double precision, on strided rows and odd sizes.
#include "kernels/ops/norm.h"

#include "kernels/error.h"
#include "kernels/ops/elementwise.h"
#include "reference.h"
#include "testing.h"

using namespace nvllm;
using testing::Buffer;

namespace {

reference::Values row_of(const std::vector<float>& values, int64_t begin, int64_t count) {
    return {values.begin() + begin, values.begin() + begin + count};
}

reference::Values all_of(const Buffer& buffer) {
    reference::Values result;
    for (int64_t i = 0; i < buffer.size(); ++i) result.push_back(buffer[i]);
    return result;
}

void check_norms(testing::Machine& machine, DType dtype, int64_t tokens, int64_t hidden) {
    const int64_t stride = hidden + 3;
    testing::Random random(static_cast<uint64_t>(hidden));
    std::vector<float> x = random.values(tokens * stride, 5.0f);
    Buffer weight(dtype, random.values(hidden));
    Buffer bias(dtype, random.values(hidden));
    std::vector<float> out(static_cast<size_t>(tokens * hidden));
    const TensorView source = testing::matrix(x, tokens, hidden, stride);
    const auto matches = [&](auto expected_row) {
        for (int64_t t = 0; t < tokens; ++t) {
            const reference::Values expected = expected_row(row_of(x, t * stride, hidden));
            for (int64_t i = 0; i < hidden; ++i) {
                const double want = expected[static_cast<size_t>(i)];
                if (!testing::close(out[static_cast<size_t>(t * hidden + i)], want, 3e-6, 3e-6))
                    return false;
            }
        }
        return true;
    };
    ops::rms_norm(machine.context(), source, weight.view({hidden}), {1e-5f, 1.0f},
                  testing::view(out, {tokens, hidden}));
    CHECK(matches(
        [&](const auto& row) { return reference::rms_norm(row, all_of(weight), 1e-5, 1.0); }));
    ops::layer_norm(machine.context(), source, weight.view({hidden}), bias.view({hidden}), 1e-5f,
                    testing::view(out, {tokens, hidden}));
    CHECK(matches([&](const auto& row) {
        return reference::layer_norm(row, all_of(weight), all_of(bias), 1e-5);
    }));
    ops::layer_norm(machine.context(), source, weight.view({hidden}), {}, 1e-5f,
                    testing::view(out, {tokens, hidden}));
    const reference::Values none(static_cast<size_t>(hidden));
    CHECK(matches(
        [&](const auto& row) { return reference::layer_norm(row, all_of(weight), none, 1e-5); }));
}

}  // namespace

TEST_CASE("norms match the reference at all sizes, types and instruction sets") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType dtype : testing::kFloatTypes) {
            for (const int64_t hidden : {1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100, 255, 300}) {
                check_norms(machine, dtype, 3, hidden);
            }
        }
        check_norms(machine, DType::bf16, 40, 2048);
    });
}

TEST_CASE("rms_norm works per head and in place, and a row does not depend on the others") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa) {
        const int64_t tokens = 300, heads = 4, head_dim = 72;
        std::vector<float> x = testing::Random(2).values(tokens * heads * head_dim);
        std::vector<float> one(x.begin() + 17 * heads * head_dim,
                               x.begin() + 18 * heads * head_dim);
        Buffer weight(DType::bf16, testing::Random(3).values(head_dim));
        const TensorView all = testing::view(x, {tokens, heads, head_dim});
        ops::rms_norm(machine.context(), all, weight.view({head_dim}), {}, all);
        const TensorView alone = testing::view(one, {1, heads, head_dim});
        ops::rms_norm(machine.context(), alone, weight.view({head_dim}), {}, alone);
        const std::vector<float> inside(x.begin() + 17 * heads * head_dim,
                                        x.begin() + 18 * heads * head_dim);
        CHECK(testing::same_bits(one, inside));
    });
}

TEST_CASE("norms refuse shapes that do not fit") {
    testing::Machine machine(1);
    std::vector<float> x(12), weight(4), out(12);
    CHECK_THROWS_AS(ops::rms_norm(machine.context(), testing::view(x, {3, 4}),
                                  testing::view(weight, {3}), {}, testing::view(out, {3, 4})),
                    Error);
    CHECK_THROWS_AS(ops::rms_norm(machine.context(), testing::view(x, {3, 4}),
                                  testing::view(weight, {4}), {}, testing::view(out, {4, 3})),
                    Error);
}
