// Tests of layers of experts on the CPU: the ops together against double precision.
#include "kernels/ops/moe.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"
#include "kernels/ops/elementwise.h"
#include "reference.h"
#include "testing.h"

using namespace nvllm;

TEST_CASE("experts of one matrix each: route, sort, multiply and add match double precision") {
    testing::Machine machine;
    const Context& context = machine.context();
    constexpr int64_t kTokens = 7, kPerToken = 2, kExperts = 5, kIn = 19, kOut = 6;
    testing::Random random(8);
    std::vector<float> x = random.values(kTokens * kIn), logits = random.values(kTokens * kExperts);
    std::vector<float> weight = random.values(kExperts * kOut * kIn);
    std::vector<int32_t> experts(kTokens * kPerToken), order = experts, tokens = experts;
    std::vector<int32_t> starts(kExperts + 1);
    std::vector<float> weights(kTokens * kPerToken), sorted(kTokens * kPerToken * kIn);
    std::vector<float> computed(kTokens * kPerToken * kOut), y(kTokens * kOut, 1.0f);
    constexpr int64_t kChoices = kTokens * kPerToken;
    const TensorView chosen = testing::view(experts, {kTokens, kPerToken});
    const TensorView shares = testing::view(weights, {kTokens, kPerToken});
    ops::route(context, testing::view(logits, {kTokens, kExperts}), true, chosen, shares);
    ops::sort_by_expert(context, chosen, testing::view(starts, {kExperts + 1}),
                        testing::view(order, {kChoices}), testing::view(tokens, {kChoices}));
    ops::gather_rows(context, testing::view(x, {kTokens, kIn}), testing::view(tokens, {kChoices}),
                     testing::view(sorted, {kChoices, kIn}));
    ops::grouped_matmul(context, testing::view(sorted, {kChoices, kIn}),
                        testing::view(starts, {kExperts + 1}),
                        testing::view(weight, {kExperts, kOut, kIn}), DType::f32,
                        testing::view(computed, {kChoices, kOut}));
    ops::add_expert_outputs(context, testing::view(computed, {kChoices, kOut}),
                            testing::view(order, {kChoices}), shares, ops::MatmulOutput::accumulate,
                            testing::view(y, {kTokens, kOut}));
    for (int64_t t = 0; t < kTokens; ++t) {
        const float* row = logits.data() + t * kExperts;
        std::vector<int64_t> best(kExperts);
        for (int64_t e = 0; e < kExperts; ++e) best[static_cast<size_t>(e)] = e;
        std::sort(best.begin(), best.end(), [&](int64_t a, int64_t b) { return row[a] > row[b]; });
        const double total = std::exp(double{row[best[0]]}) + std::exp(double{row[best[1]]});
        for (int64_t o = 0; o < kOut; ++o) {
            double expected = 1;
            for (size_t n = 0; n < 2; ++n) {
                reference::Dot dot;
                for (int64_t k = 0; k < kIn; ++k)
                    dot.add(x[static_cast<size_t>(t * kIn + k)],
                            weight[static_cast<size_t>((best[n] * kOut + o) * kIn + k)]);
                expected += std::exp(double{row[best[n]]}) / total * dot.sum;
            }
            CHECK(testing::close(y[static_cast<size_t>(t * kOut + o)], expected, 1e-5, 1e-5));
        }
    }
    experts[0] = kExperts;
    CHECK_THROWS_AS(
        ops::sort_by_expert(context, chosen, testing::view(starts, {kExperts + 1}),
                            testing::view(order, {kChoices}), testing::view(tokens, {kChoices})),
        Error);
}
