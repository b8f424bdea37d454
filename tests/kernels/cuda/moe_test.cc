// Emulated tests of CUDA's layers of experts: the CPU's choices and order, products of groups,
// sums.
#include "kernels/cuda/ops.h"

#include "../reference.h"
#include "emulated.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/ops/cpu_ops.h"

using namespace nvllm;
using testing::Buffer;

namespace {

std::vector<int32_t> some_experts(int64_t choices, int64_t num_experts) {
    testing::Random random(static_cast<uint64_t>(choices));
    std::vector<int32_t> experts;
    for (int64_t i = 0; i < choices; ++i)
        experts.push_back(static_cast<int32_t>(random.below(num_experts)));
    return experts;
}

struct Sorted {
    std::vector<int32_t> starts, order, tokens;

    Sorted(int64_t experts, int64_t choices)
        : starts(static_cast<size_t>(experts + 1), -1),
          order(static_cast<size_t>(choices), -1),
          tokens(static_cast<size_t>(choices), -1) {}
    TensorView start_view() { return testing::view(starts, {static_cast<int64_t>(starts.size())}); }
    TensorView order_view() { return testing::view(order, {static_cast<int64_t>(order.size())}); }
    TensorView token_view() { return testing::view(tokens, {static_cast<int64_t>(tokens.size())}); }
};

void check_order(int64_t tokens, int64_t per_token, int64_t num_experts) {
    testing::Machine machine(1);
    const int64_t choices = tokens * per_token;
    std::vector<int32_t> experts = some_experts(choices, num_experts);
    Sorted out(num_experts, choices), expected(num_experts, choices);
    const TensorView chosen = testing::view(experts, {tokens, per_token});
    cuda::sort_by_expert(machine.context(), chosen, out.start_view(), out.order_view(),
                         out.token_view());
    cpu::sort_by_expert(machine.context(), chosen, expected.start_view(), expected.order_view(),
                        expected.token_view());
    CHECK(out.starts == expected.starts);
    CHECK(out.order == expected.order);
    CHECK(out.tokens == expected.tokens);
}

}  // namespace

TEST_CASE("cuda: tokens whose logits are no numbers choose experts that exist") {
    testing::Machine machine(1);
    constexpr int64_t kExperts = 8, kPerToken = 4;
    std::vector<float> values(2 * kExperts, std::nanf(""));
    for (int64_t e = 0; e < kExperts; ++e) values[static_cast<size_t>(kExperts + e)] = e;
    values.back() = std::nanf("");
    Buffer logits(DType::f32, values);
    std::vector<int32_t> experts(2 * kPerToken, -1);
    std::vector<float> weights(2 * kPerToken, 0.0f);
    cuda::route(machine.context(), logits.view({2, kExperts}), false,
                testing::view(experts, {2, kPerToken}), testing::view(weights, {2, kPerToken}));
    for (const int32_t expert : experts) CHECK((expert >= 0 && expert < kExperts));
    for (const float weight : weights) CHECK(std::isnan(weight));
}

TEST_CASE("cuda: tokens choose the experts that they choose on the CPU") {
    testing::Machine machine(1);
    under_all_schedules([&] {
        for (const DType dtype : testing::kFloatTypes) {
            for (const int64_t num_experts : {8, 37, 128}) {
                constexpr int64_t kTokens = 6, kPerToken = 4;
                std::vector<float> values = testing::Random(7).values(kTokens * 140, 3.0f);
                for (float& value : values) value = std::round(value * 8) / 8;  // with equals
                Buffer logits(dtype, values);
                std::vector<int32_t> experts(kTokens * kPerToken), expected = experts;
                std::vector<float> weights(kTokens * kPerToken), expected_weights = weights;
                cuda::route(machine.context(), logits.matrix(kTokens, num_experts, 140), true,
                            testing::view(experts, {kTokens, kPerToken}),
                            testing::view(weights, {kTokens, kPerToken}));
                cpu::route(machine.context(), testing::matrix(values, kTokens, num_experts, 140),
                           true, testing::view(expected, {kTokens, kPerToken}),
                           testing::view(expected_weights, {kTokens, kPerToken}));
                CHECK(experts == expected);
                for (size_t i = 0; i < weights.size(); ++i)
                    CHECK(testing::close(weights[i], expected_weights[i], 1e-5));
            }
        }
    });
}

TEST_CASE("cuda: choices are put in the order of their experts") {
    under_all_schedules([] { check_order(9, 2, 5); });
    check_order(700, 2, 6);
    check_order(1, 1, 1);
}

TEST_CASE("cuda: products of groups have the bits of single products") {
    testing::Machine machine(1);
    under_all_schedules([&] {
        for (const DType dtype : {DType::bf16, DType::f32}) {
            constexpr int64_t kIn = 72, kOut = 40, kExperts = 4, kRows = 90;
            std::vector<int32_t> starts{0, 3, 3, 73, 90};
            Buffer x(dtype, testing::Random(1).values(kRows * kIn));
            Buffer weight(dtype, testing::Random(2).values(kExperts * kOut * kIn));
            Buffer y(dtype, kRows * kOut), expected(dtype, kRows * kOut);
            const TensorView weights = weight.view({kExperts, kOut, kIn});
            cuda::grouped_matmul(machine.context(), x.view({kRows, kIn}),
                                 testing::view(starts, {kExperts + 1}), weights, dtype,
                                 y.view({kRows, kOut}));
            for (int64_t e = 0; e < kExperts; ++e) {
                const int64_t first = starts[static_cast<size_t>(e)];
                const int64_t count = starts[static_cast<size_t>(e + 1)] - first;
                if (count == 0) continue;
                cuda::gemm(machine.context(), x.view({kRows, kIn}).rows(first, count),
                           weight.view({kExperts * kOut, kIn}).rows(e * kOut, kOut), {}, dtype,
                           ops::MatmulOutput::overwrite,
                           expected.view({kRows, kOut}).rows(first, count));
            }
            bool same = true;
            for (int64_t i = 0; i < y.size(); ++i) same = same && y[i] == expected[i];
            CHECK(same);
        }
    });
}

TEST_CASE("cuda: what experts computed is added by weight") {
    testing::Machine machine(1);
    under_all_schedules([&] {
        for (const DType dtype : testing::kFloatTypes) {
            for (const auto output :
                 {ops::MatmulOutput::overwrite, ops::MatmulOutput::accumulate}) {
                constexpr int64_t kTokens = 5, kPerToken = 3, kWidth = 21;
                std::vector<int32_t> experts{2, 0, 1, 3, 1, 0, 0, 1, 2, 3, 2, 1, 1, 3, 0};
                std::vector<float> weights = testing::Random(3).values(kTokens * kPerToken);
                Sorted sorted(4, kTokens * kPerToken);
                cuda::sort_by_expert(machine.context(),
                                     testing::view(experts, {kTokens, kPerToken}),
                                     sorted.start_view(), sorted.order_view(), sorted.token_view());
                Buffer x(dtype, testing::Random(4).values(kTokens * kPerToken * kWidth));
                Buffer y(dtype, testing::Random(5).values(kTokens * kWidth));
                const Buffer before = y;
                cuda::add_expert_outputs(machine.context(), x.view({kTokens * kPerToken, kWidth}),
                                         sorted.order_view(),
                                         testing::view(weights, {kTokens, kPerToken}), output,
                                         y.view({kTokens, kWidth}));
                CHECK(testing::matches(y, dtype, 1e-6, [&](int64_t i) {
                    double sum = output == ops::MatmulOutput::accumulate ? before[i] : 0.0f;
                    for (size_t row = 0; row < sorted.order.size(); ++row) {
                        const int64_t choice = sorted.order[row];
                        if (choice / kPerToken != i / kWidth) continue;
                        sum += double{weights[static_cast<size_t>(choice)]} *
                               x[static_cast<int64_t>(row) * kWidth + i % kWidth];
                    }
                    return sum;
                }));
            }
        }
    });
}
