// Emulated tests of CUDA sampling: the CPU's tokens, and log-probabilities in double precision.
#include "kernels/cuda/ops.h"

#include <algorithm>
#include <limits>

#include "emulated.h"
#include "kernels/ops/cpu_ops.h"

using namespace nvllm;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename Record>
ConstTensorView records(const std::vector<Record>& all) {
    return {all.data(),
            DType::u8,
            {static_cast<int64_t>(all.size()), static_cast<int64_t>(sizeof(Record))}};
}

// Logits of a shape like a model's, with equals, and some that are forbidden.
std::vector<float> made_up_logits(int64_t rows, int64_t stride, uint64_t seed) {
    testing::Random random(seed);
    std::vector<float> logits = random.values(rows * stride, 12.0f);
    for (float& logit : logits) {
        if (random.below(3) == 0) logit = std::round(logit * 4) / 4;
        if (random.below(50) == 0) logit = -kInfinity;
    }
    return logits;
}

std::vector<ops::SamplingRow> many_ways() {
    std::vector<ops::SamplingRow> all;
    uint32_t number = 0;
    for (const float temperature : {0.0f, 0.7f, 1.0f, 3.0f}) {
        for (const int32_t top_k : {0, 1, 7, 5000}) {
            for (const float top_p : {1.0f, 0.9f, 0.3f}) {
                for (const float min_p : {0.0f, 0.05f}) {
                    all.push_back(
                        {12345u + number, number, number % 3, temperature, top_p, min_p, top_k});
                    ++number;
                }
            }
        }
    }
    return all;
}

void check_same_tokens(std::vector<float> logits, int64_t vocab, int64_t stride,
                       const std::vector<ops::SamplingRow>& how) {
    testing::Machine machine(1);
    const auto rows = static_cast<int64_t>(how.size());
    std::vector<int32_t> tokens(how.size(), -7), expected(how.size(), -8);
    const TensorView matrix = testing::matrix(logits, rows, vocab, stride);
    cuda::sample(machine.context(), matrix, records(how), testing::view(tokens, {rows}));
    cpu::sample(machine.context(), matrix, records(how), testing::view(expected, {rows}));
    for (size_t i = 0; i < how.size(); ++i) {
        CAPTURE(i);
        CHECK(tokens[i] == expected[i]);
    }
}

}  // namespace

TEST_CASE("cuda: rows choose the tokens that the CPU chooses") {
    const std::vector<ops::SamplingRow> how = many_ways();
    const auto rows = static_cast<int64_t>(how.size());
    check_same_tokens(made_up_logits(rows, 1003, 1), 1000, 1003, how);
    check_same_tokens(made_up_logits(rows, 344, 2), 344, 344, how);
    check_same_tokens(made_up_logits(rows, 1, 3), 1, 1, how);
}

TEST_CASE("cuda: a few rows choose alike in every schedule") {
    std::vector<ops::SamplingRow> how(2);
    how[0] = {1, 2, 3, 0.8f, 0.95f, 0.01f, 40};
    how[1] = {4, 5, 6, 1.3f, 1.0f, 0.0f, 0};
    const std::vector<float> logits = made_up_logits(2, 517, 3);
    under_all_schedules([&] { check_same_tokens(logits, 517, 517, how); });
}

TEST_CASE("cuda: rows of equals, whose bucket does not fit, are split by token") {
    std::vector<ops::SamplingRow> how;
    for (uint32_t i = 0; i < 6; ++i) how.push_back({i, 0, 0, 1.0f, i % 2 == 0 ? 1.0f : 0.5f, 0, 0});
    how.push_back({9, 0, 0, 1.0f, 1.0f, 0, 3});
    how.push_back({9, 0, 0, 0.0f, 1.0f, 0, 0});
    const auto rows = static_cast<int64_t>(how.size());
    check_same_tokens(std::vector<float>(static_cast<size_t>(rows * 5000), 2.5f), 5000, 5000, how);
    // Nearly equal: the code's upper bits differ.
    std::vector<float> close = testing::Random(4).values(rows * 5000, 0.01f);
    check_same_tokens(close, 5000, 5000, how);
}

TEST_CASE("cuda: draws follow the weights") {
    testing::Machine machine(1);
    constexpr int64_t kRows = 400;
    std::vector<float> logits;
    std::vector<ops::SamplingRow> how(kRows);
    for (uint32_t i = 0; i < kRows; ++i) {
        logits.insert(logits.end(), {0.0f, std::log(3.0f), -kInfinity, std::log(6.0f)});
        how[i].seed = i;
    }
    std::vector<int32_t> tokens(kRows);
    cuda::sample(machine.context(), testing::view(logits, {kRows, 4}), records(how),
                 testing::view(tokens, {kRows}));
    const auto share = [&](int32_t token) {
        return static_cast<double>(std::count(tokens.begin(), tokens.end(), token)) / kRows;
    };
    CHECK(std::abs(share(0) - 0.1) < 0.06);
    CHECK(std::abs(share(1) - 0.3) < 0.08);
    CHECK(share(2) == 0.0);
    CHECK(std::abs(share(3) - 0.6) < 0.08);
}

TEST_CASE("cuda: one token is drawn as often as 64 others that weigh as much together") {
    testing::Machine machine(1);
    constexpr int64_t kRows = 300, kVocab = 65;
    std::vector<float> logits(kRows * kVocab);
    std::vector<ops::SamplingRow> how(kRows);
    for (uint32_t i = 0; i < kRows; ++i) {
        logits[i * kVocab + 40] = std::log(64.0f);
        how[i].seed = 1000 + i;
    }
    std::vector<int32_t> tokens(kRows);
    cuda::sample(machine.context(), testing::view(logits, {kRows, kVocab}), records(how),
                 testing::view(tokens, {kRows}));
    const auto drawn = static_cast<double>(std::count(tokens.begin(), tokens.end(), 40));
    CHECK(std::abs(drawn / kRows - 0.5) < 0.1);
}

TEST_CASE("cuda: rows that have no token say so") {
    const float nan = std::nanf("");
    for (const float wrong : {nan, kInfinity}) {
        std::vector<float> logits{1, 2, wrong, 0, 1, 2, 3, 0};
        std::vector<ops::SamplingRow> how(2);
        check_same_tokens(logits, 4, 4, how);
        how[0].temperature = how[1].temperature = 0;
        check_same_tokens(logits, 4, 4, how);
    }
    check_same_tokens(std::vector<float>(8, -kInfinity), 4, 4, std::vector<ops::SamplingRow>(2));
}

TEST_CASE("cuda: scores change as on the CPU") {
    testing::Machine machine(1);
    constexpr int64_t kRows = 3, kVocab = 77;
    std::vector<float> logits = testing::Random(5).values(kRows * kVocab, 4.0f);
    std::vector<float> expected = logits;
    const std::vector<ops::LogitBias> biases{
        {0, 3, 2.0f}, {2, 76, -kInfinity}, {1, 77, 1.0f}, {3, 0, 1.0f}, {-1, 0, 1.0f}};
    const std::vector<ops::SeenScore> seen{{0, 3, 2}, {0, 4, 0}, {2, 5, 1}, {1, 9, 3}, {1, -1, 3}};
    const std::vector<ops::LogitPenalties> penalties{
        {1.5f, 0.25f, 0.5f}, {1.0f, 0.5f, 0.0f}, {2.0f, 0.0f, 1.0f}};
    std::vector<uint32_t> allowed(kRows * 3);
    testing::Random random(6);
    for (uint32_t& word : allowed) word = static_cast<uint32_t>(random.next());
    // Those that are punished: above and below 0, and allowed.
    allowed[0] |= 1u << 3 | 1u << 4;
    allowed[3] |= 1u << 9;
    allowed[6] |= 1u << 5;
    logits[3] = -2.5f;
    logits[4] = 1.5f;
    expected = logits;
    ops::LogitsAdjustments changes;
    changes.allowed = ConstTensorView(allowed.data(), DType::u32, {kRows, 3});
    changes.biases = records(biases);
    changes.seen = records(seen);
    changes.penalties = records(penalties);
    cuda::change_scores(machine.context(), changes, testing::view(logits, {kRows, kVocab}));
    cpu::change_scores(machine.context(), changes, testing::view(expected, {kRows, kVocab}));
    CHECK(testing::same_bits(logits, expected));
}

TEST_CASE("cuda: logprobs, ranks and the likeliest tokens") {
    testing::Machine machine(1);
    const auto check = [&](int64_t vocab, int64_t count) {
        CAPTURE(vocab);
        constexpr int64_t kRows = 4;
        std::vector<float> logits = made_up_logits(kRows, vocab + 1, 9);
        std::vector<int32_t> chosen{0, static_cast<int32_t>(vocab) - 1, 1, -1};
        struct Output {
            std::vector<float> logprobs, top_logprobs;
            std::vector<int32_t> ranks, top_tokens;
        };
        const auto fill = [&](Output& out) {
            out.logprobs.resize(kRows);
            out.ranks.resize(kRows);
            out.top_tokens.resize(static_cast<size_t>(kRows * count));
            out.top_logprobs.resize(static_cast<size_t>(kRows * count));
            return ops::LogprobsOutput{testing::view(out.logprobs, {kRows}),
                                       testing::view(out.ranks, {kRows}),
                                       testing::view(out.top_tokens, {kRows, count}),
                                       testing::view(out.top_logprobs, {kRows, count})};
        };
        Output out, expected;
        const TensorView matrix = testing::matrix(logits, kRows, vocab, vocab + 1);
        cuda::logprobs(machine.context(), matrix, testing::view(chosen, {kRows}), fill(out));
        cpu::logprobs(machine.context(), matrix, testing::view(chosen, {kRows}), fill(expected));
        CHECK(out.ranks == expected.ranks);
        CHECK(out.top_tokens == expected.top_tokens);
        for (size_t i = 0; i < out.top_logprobs.size(); ++i)
            CHECK(testing::close(out.top_logprobs[i], expected.top_logprobs[i], 1e-6, 1e-6));
        for (size_t row = 0; row < kRows; ++row) {
            double total = 0;
            const float* scores = logits.data() + static_cast<int64_t>(row) * (vocab + 1);
            for (int64_t i = 0; i < vocab; ++i) total += std::exp(double{scores[i]});
            const double exact =
                chosen[row] < 0 ? std::nan("") : scores[chosen[row]] - std::log(total);
            CHECK(testing::close(out.logprobs[row], exact, 1e-6, 1e-5));
            CHECK(testing::close(expected.logprobs[row], exact, 1e-6, 1e-5));
        }
    };
    under_all_schedules([&] { check(131, 5); });
    check(1000, 128);
    check(9, 20);
    check(64, 0);
}
