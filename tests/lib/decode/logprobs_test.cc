// Values, ranks and top lists against plain formulas.
#include "lib/decode/logprobs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

using namespace nvllm;

namespace {

std::vector<float> wavy(size_t vocab) {
    std::vector<float> logits(vocab);
    for (size_t i = 0; i < vocab; ++i) logits[i] = 6.0f * std::sin(static_cast<float>(i * i));
    return logits;
}

double plain_logprob(const std::vector<float>& logits, size_t token) {
    long double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<long double>(logit));
    return static_cast<double>(logits[token] - std::log(total));
}

}  // namespace

TEST_CASE("values, ranks and the top list") {
    const std::vector<float> logits = wavy(777);
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    Scores scratch;
    SampledLogprobs result;
    for (size_t place = 0; place < order.size(); place += 13) {
        const int32_t chosen = order[place];
        compute_logprobs(logits, chosen, 20, scratch, result);
        CHECK(result.chosen.logprob ==
              doctest::Approx(plain_logprob(logits, static_cast<size_t>(chosen))).epsilon(1e-6));
        CHECK(result.rank == static_cast<int32_t>(place) + 1);
        REQUIRE(result.top.size() == 20);
        for (size_t rank = 0; rank < 20; ++rank) CHECK(result.top[rank].token_id == order[rank]);
    }
}

TEST_CASE("the chosen token has the same bits in the top list") {
    const std::vector<float> logits = wavy(100);
    Scores scratch;
    SampledLogprobs all, one;
    compute_logprobs(logits, 0, 100, scratch, all);
    for (const TokenLogprob& entry : all.top) {
        compute_logprobs(logits, entry.token_id, 0, scratch, one);
        CHECK(std::bit_cast<uint32_t>(one.chosen.logprob) ==
              std::bit_cast<uint32_t>(entry.logprob));
        CHECK(one.top.empty());
    }
}

TEST_CASE("forbidden tokens are clamped and are not listed; extreme rows stay finite") {
    const float infinity = std::numeric_limits<float>::infinity();
    const std::vector<float> logits = {-infinity, 3e38f, -3e38f};
    Scores scratch;
    SampledLogprobs result;
    compute_logprobs(logits, 0, 3, scratch, result);
    CHECK(result.chosen.logprob == kLowestLogprob);
    CHECK(result.rank == 3);
    REQUIRE(result.top.size() == 2);
    CHECK(result.top[0].logprob == 0.0f);
    CHECK(result.top[1].logprob == kLowestLogprob);
}

TEST_CASE("equals rank by id") {
    const std::vector<float> logits = {1, 1, 1};
    Scores scratch;
    SampledLogprobs result;
    compute_logprobs(logits, 1, 3, scratch, result);
    CHECK(result.rank == 2);
    CHECK(result.top[1].token_id == 1);
}
