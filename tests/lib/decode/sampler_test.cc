// Greedy choice, random draws and their independence, rows that are not numbers.
#include "lib/decode/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "lib/base/random.h"
#include "lib/decode/logits_processors.h"

using namespace nvllm;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

SamplingParams seeded(uint64_t seed) {
    SamplingParams params;
    params.seed = seed;
    return params;
}

SequenceSamplingState state_of(const SamplingParams& params, int32_t continuation = 0) {
    return {params, std::vector<int32_t>{0}, 1, {}, continuation};
}

// Deterministic logits that look like a model's: a few good tokens, a long tail.
std::vector<float> make_logits(size_t vocab, uint32_t salt) {
    std::vector<float> logits(vocab);
    for (size_t index = 0; index < vocab; ++index) {
        const PhiloxCounter words = philox({static_cast<uint32_t>(index), salt, 0, 0}, {7, 7});
        const double u = unit_interval(words[0], words[1]) + 1e-12,
                     v = unit_interval(words[2], words[3]);
        logits[index] =
            static_cast<float>(2.5 * std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307 * v));
    }
    return logits;
}

// The chi-square statistic of `num_draws` tokens of one sequence against its processed
// distribution.
struct ChiSquare {
    double statistic = 0.0;
    int degrees = -1;
};
ChiSquare chi_square(const SamplingParams& params, const std::vector<float>& logits,
                     int num_draws) {
    SequenceSamplingState state = state_of(params);
    SamplerScratch scratch;
    std::map<int32_t, int> counts;
    for (int index = 0; index < num_draws; ++index) {
        std::vector<float> row = logits;
        ++counts[sample(state, row, scratch).value().token_id];
        state.accept(0);
    }
    std::vector<float> row = logits;
    scratch.scores.reset(row);
    narrow(state, scratch.scores);
    const double total = scratch.scores.total_weight();
    ChiSquare result;
    int num_explained = 0;
    for (const Candidate& candidate : scratch.scores.best(row.size())) {
        const double expected = num_draws * scratch.scores.weight(candidate.score) / total;
        const int seen = counts[candidate.token_id];
        num_explained += seen;
        result.statistic += (seen - expected) * (seen - expected) / expected;
        ++result.degrees;
    }
    CHECK(num_explained == num_draws);  // nothing outside of the distribution was drawn
    return result;
}

}  // namespace

TEST_CASE("greedy takes the lowest id of the largest logit, wherever it lies") {
    SamplingParams params = seeded(0);
    params.temperature = 0.0f;
    const SequenceSamplingState state = state_of(params);
    SamplerScratch scratch;
    for (size_t vocab : {1u, 2u, 31u, 32u, 33u, 64u, 1000u}) {
        for (size_t best = 0; best < vocab; best += 7) {
            std::vector<float> logits(vocab, -1.5f);
            logits[best] = 2.0f;
            logits[vocab - 1] = 2.0f;
            CHECK(sample(state, logits, scratch).value().token_id == static_cast<int32_t>(best));
        }
    }
}

TEST_CASE("greedy sees what changes the row, not temperature or truncation") {
    SamplingParams params = seeded(0);
    params.temperature = 0.0f;
    params.top_k = 1;
    params.min_p = 1.0f;
    params.logit_bias = {{2, 10.0f}};
    SamplerScratch scratch;
    std::vector<float> logits = {3, 2, 1};
    CHECK(sample(state_of(params), logits, scratch).value().token_id == 2);
}

TEST_CASE("rows that are not numbers are faults of their own sequence") {
    SamplerScratch scratch;
    for (const float temperature : {0.0f, 1.0f}) {
        SamplingParams params = seeded(0);
        params.temperature = temperature;
        for (std::vector<float> logits : std::vector<std::vector<float>>{
                 {1, kNaN, 2}, {kInfinity, 1, 2}, {-kInfinity, -kInfinity}, {kNaN}, {}}) {
            const auto result = sample(state_of(params), logits, scratch);
            REQUIRE(!result.ok());
            CHECK(result.fault().kind == ErrorKind::internal);
            CHECK(result.fault().message.find("not finite") != std::string::npos);
        }
        std::vector<float> some_forbidden = {-kInfinity, 0.5f, -kInfinity};
        CHECK(sample(state_of(params), some_forbidden, scratch).value().token_id == 1);
    }
}

TEST_CASE("a NaN anywhere in a long row is found") {
    SamplerScratch scratch;
    const SequenceSamplingState state = state_of(seeded(0));
    for (size_t place = 0; place < 100; ++place) {
        std::vector<float> logits(100, 1.0f);
        logits[place] = kNaN;
        CHECK(!sample(state, logits, scratch).ok());
    }
}

TEST_CASE("parameters that forbid every token are a fault of the request") {
    SamplingParams params = seeded(0);
    params.min_tokens = 1;
    params.stop_token_ids = {0, 1};
    SamplerScratch scratch;
    for (const float temperature : {0.0f, 1.0f}) {
        params.temperature = temperature;
        std::vector<float> logits = {1, 2};
        const auto result = sample(state_of(params), logits, scratch);
        REQUIRE(!result.ok());
        CHECK(result.fault().kind == ErrorKind::bad_data);
    }
}

TEST_CASE("100,000 draws have the distribution (chi-square, 99.9 %)") {
    const std::vector<float> logits = make_logits(40, 3);
    SamplingParams params = seeded(42);
    const auto check = [&] {
        const ChiSquare result = chi_square(params, logits, 100000);
        // Wilson and Hilferty's approximation of the quantile; normal quantile of 99.9 %: 3.09.
        const double k = result.degrees, z = 3.09;
        const double limit = k * std::pow(1 - 2 / (9 * k) + z * std::sqrt(2 / (9 * k)), 3);
        CAPTURE(result.degrees);
        CHECK(result.statistic < limit);
    };
    SUBCASE("as the model gave it") { check(); }
    SUBCASE("hot") {
        params.temperature = 1.7f;
        check();
    }
    SUBCASE("cold") {
        params.temperature = 0.6f;
        params.top_k = 12;
        check();
    }
    SUBCASE("top-p") {
        params.top_p = 0.9f;
        check();
    }
    SUBCASE("min-p") {
        params.min_p = 0.05f;
        check();
    }
    SUBCASE("all together, another seed") {
        params = seeded(43);
        params.temperature = 1.2f;
        params.top_k = 20;
        params.top_p = 0.95f;
        params.min_p = 0.02f;
        check();
    }
}

TEST_CASE(
    "a continuation's tokens do not depend on who else is sampled, in which order or with which "
    "scratch") {
    constexpr int kSequences = 6, kSteps = 40;
    const auto logits_of = [](int sequence, int step) {
        return make_logits(500, static_cast<uint32_t>(1000 * sequence + step));
    };
    const auto make_state = [](int sequence) {
        SamplingParams params = seeded(static_cast<uint64_t>(sequence / 2));
        params.top_p = sequence % 3 == 0 ? 0.8f : 1.0f;
        params.repetition_penalty = 1.2f;
        return state_of(params, sequence % 2);
    };
    std::vector<std::vector<int32_t>> alone(kSequences);
    for (int sequence = 0; sequence < kSequences; ++sequence) {
        SequenceSamplingState state = make_state(sequence);
        SamplerScratch scratch;
        for (int step = 0; step < kSteps; ++step) {
            std::vector<float> row = logits_of(sequence, step);
            alone[static_cast<size_t>(sequence)].push_back(
                sample(state, row, scratch).value().token_id);
            state.accept(alone[static_cast<size_t>(sequence)].back());
        }
    }
    std::vector<SequenceSamplingState> states;
    for (int sequence = 0; sequence < kSequences; ++sequence)
        states.push_back(make_state(sequence));
    SamplerScratch shared;
    for (int step = 0; step < kSteps; ++step) {
        for (int turn = 0; turn < kSequences; ++turn) {
            const int sequence = step % 2 == 0 ? turn : kSequences - 1 - turn;
            std::vector<float> row = logits_of(sequence, step);
            SequenceSamplingState& state = states[static_cast<size_t>(sequence)];
            const int32_t token = sample(state, row, shared).value().token_id;
            CHECK(token == alone[static_cast<size_t>(sequence)][static_cast<size_t>(step)]);
            state.accept(token);
        }
    }
}

TEST_CASE("seeds and continuations give different texts, the same seed the same") {
    const auto text = [](uint64_t seed, int32_t continuation) {
        SequenceSamplingState state = state_of(seeded(seed), continuation);
        SamplerScratch scratch;
        std::vector<int32_t> tokens;
        for (int step = 0; step < 20; ++step) {
            std::vector<float> row = make_logits(300, 5);
            tokens.push_back(sample(state, row, scratch).value().token_id);
            state.accept(tokens.back());
        }
        return tokens;
    };
    CHECK(text(1, 0) == text(1, 0));
    CHECK(text(1, 0) != text(2, 0));
    CHECK(text(1, 0) != text(1, 1));
    CHECK(text(1, 0) != text(uint64_t{1} << 32 | 1, 0));
}

TEST_CASE("top-k 1, a vanishing top-p and a tiny temperature are greedy") {
    SamplerScratch scratch;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        const std::vector<float> logits = make_logits(5000, static_cast<uint32_t>(seed));
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        for (int kind = 0; kind < 3; ++kind) {
            SamplingParams params = seeded(seed);
            if (kind == 0) params.top_k = 1;
            if (kind == 1) params.top_p = 1e-20f;
            if (kind == 2) params.temperature = 1e-6f;
            std::vector<float> row = logits;
            CHECK(sample(state_of(params), row, scratch).value().token_id == best);
        }
    }
}

TEST_CASE("a vocabulary of one token") {
    SamplerScratch scratch;
    SamplingParams params = seeded(9);
    params.logprobs = 5;
    std::vector<float> logits = {-7.0f};
    const auto token = sample(state_of(params), logits, scratch);
    CHECK(token.value().token_id == 0);
    CHECK(token.value().logprobs->chosen.logprob == 0.0f);
    CHECK(token.value().logprobs->top.size() == 1);
}

TEST_CASE("draws at the ends of the unit interval stay inside the candidates") {
    std::vector<float> logits = make_logits(1000, 1);
    Scores scores;
    scores.reset(logits);
    CHECK(scores.draw(0.0).token_id == scores.best(1)[0].token_id);
    const Candidate last = scores.draw(std::nextafter(1.0, 0.0));
    CHECK(std::count(logits.begin(), logits.end(), last.score) > 0);
}

TEST_CASE("logprobs are those of the raw row though penalties changed it") {
    SamplerScratch scratch;
    SamplingParams params = seeded(3);
    params.logprobs = 2;
    params.temperature = 0.0f;
    params.logit_bias = {{0, 100.0f}};
    std::vector<float> logits = {0.0f, 1.0f, 2.0f};
    const auto token = sample(state_of(params), logits, scratch);
    CHECK(token.value().token_id == 0);
    CHECK(token.value().logprobs->rank == 3);
    CHECK(token.value().logprobs->top[0].token_id == 2);
    CHECK(token.value().logprobs->chosen.logprob == doctest::Approx(-2.407606).epsilon(1e-6));
}

TEST_CASE("a token mask forbids before all else, and logprobs stay those of the raw row") {
    SamplerScratch scratch;
    for (const float temperature : {0.0f, 1.0f}) {
        SamplingParams params = seeded(3);
        params.logprobs = 1;
        params.temperature = temperature;
        params.logit_bias = {{39, 100.0f}};
        std::vector<float> logits(40, 1.0f);
        logits[7] = 5.0f;
        const std::vector<uint32_t> mask = {1u << 3, 0};
        const auto token = sample(state_of(params), logits, scratch, mask);
        CHECK(token.value().token_id == 3);
        CHECK(token.value().logprobs->top[0].token_id == 7);
        std::vector<float> again(40, 1.0f);
        const auto none = sample(state_of(params), again, scratch, std::vector<uint32_t>(2, 0));
        REQUIRE_FALSE(none.ok());
        CHECK(none.fault().kind == ErrorKind::bad_data);
    }
}
