// Rows of logits that stay on a device: the choices, logprobs and faults are those of the host.
#include "lib/decode/device_sampler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/host/thread_pool.h"
#include "lib/base/random.h"

using namespace nvllm;

namespace {

constexpr size_t kVocab = 200;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> make_row(uint32_t salt) {
    std::vector<float> row(kVocab);
    for (size_t index = 0; index < row.size(); ++index) {
        const PhiloxCounter words = philox({static_cast<uint32_t>(index), salt, 0, 0}, {7, 7});
        row[index] = static_cast<float>(16 * unit_interval(words[0], words[1]) - 8);
    }
    return row;
}

SequenceSamplingState state_of(SamplingParams params, uint64_t seed) {
    params.seed = seed;
    SequenceSamplingState state(params, std::vector<int32_t>{3, 9, 30}, 2, std::vector<int32_t>{5},
                                1);
    state.accept(9);
    return state;
}

// All that the ops know, alone and together.
std::vector<SamplingParams> many_params() {
    std::vector<SamplingParams> all(12);
    all[0].temperature = 0.0f;
    all[1].temperature = 0.7f;
    all[1].top_k = 20;
    all[2].top_p = 0.8f;
    all[3].min_p = 0.05f;
    all[4].temperature = 0.0f;
    all[4].repetition_penalty = 1.5f;
    all[5].frequency_penalty = 0.7f;
    all[5].presence_penalty = 0.3f;
    all[6].allowed_token_ids = {4, 60, 199, 7};
    all[7].bad_words = {{11}, {9, 12}, {8, 13}};
    all[8].temperature = 0.0f;
    all[8].min_tokens = 50;
    all[9].logit_bias = {{3, 5.0f}, {17, -100.0f}, {5, 2.0f}};
    all[9].min_tokens = 50;
    all[10] = all[9];
    all[10].logprobs = 5;
    all[10].frequency_penalty = 1.0f;
    all[10].top_k = 5;
    all[11].logprobs = 0;
    return all;
}

using Masks = std::vector<std::vector<uint32_t>>;

// Every third row may choose any token, the others about half of them.
Masks masks_of(size_t rows) {
    Masks masks(rows);
    for (size_t row = 0; row < rows; ++row) {
        for (uint32_t word = 0; row % 3 != 0 && word < (kVocab + 31) / 32; ++word) {
            masks[row].push_back(philox({word, static_cast<uint32_t>(row), 1, 0}, {7, 7})[0] |
                                 1u << 4);
        }
    }
    return masks;
}

class Machine {
  public:
    Machine() : threads_(1), sampler_(ComputeDevice()) {
        context_.threads = &threads_;
        context_.scratch = &scratch_;
    }

    // A step whose rows come in parts of at most `at_once`.
    std::vector<Result<SampledToken>> sample(const std::vector<SequenceSamplingState>& states,
                                             std::vector<std::vector<float>> rows, size_t at_once,
                                             const Masks& masks = {}) {
        sampler_.begin();
        for (size_t begin = 0; begin < rows.size(); begin += at_once) {
            const size_t count = std::min(at_once, rows.size() - begin);
            std::vector<const SequenceSamplingState*> part;
            std::vector<float> logits;
            std::vector<std::span<const uint32_t>> part_masks;
            if (!masks.empty()) {
                part_masks.assign(masks.begin() + static_cast<ptrdiff_t>(begin),
                                  masks.begin() + static_cast<ptrdiff_t>(begin + count));
            }
            for (size_t i = begin; i < begin + count; ++i) {
                part.push_back(&states[i]);
                logits.insert(logits.end(), rows[i].begin(), rows[i].end());
            }
            sampler_.sample(context_, part,
                            TensorView(logits.data(), DType::f32,
                                       {static_cast<int64_t>(count), int64_t{kVocab}}),
                            {}, part_masks);
        }
        sampler_.fetch(context_);
        std::vector<Result<SampledToken>> results;
        for (size_t i = 0; i < rows.size(); ++i) results.push_back(sampler_.result(i));
        return results;
    }

  private:
    ThreadPool threads_;
    ScratchArena scratch_;
    Context context_;
    DeviceSampler sampler_;
};

void check_same_logprobs(const SampledLogprobs& one, const SampledLogprobs& other) {
    CHECK(one.chosen.token_id == other.chosen.token_id);
    CHECK(one.rank == other.rank);
    CHECK(std::abs(one.chosen.logprob - other.chosen.logprob) < 1e-5f);
    REQUIRE(one.top.size() == other.top.size());
    for (size_t i = 0; i < one.top.size(); ++i) {
        CHECK(one.top[i].token_id == other.top[i].token_id);
        CHECK(std::abs(one.top[i].logprob - other.top[i].logprob) < 1e-5f);
    }
}

}  // namespace

TEST_CASE("a device chooses what the host chooses, whatever stands beside a row") {
    Machine machine;
    SamplerScratch scratch;
    std::vector<SequenceSamplingState> states;
    std::vector<std::vector<float>> rows;
    for (uint32_t round = 0; round < 20; ++round) {
        for (const SamplingParams& params : many_params()) {
            CHECK(DeviceSampler::can_sample(params));
            states.push_back(state_of(params, 100 + states.size()));
            rows.push_back(make_row(static_cast<uint32_t>(rows.size())));
        }
    }
    for (const size_t at_once : {size_t{1}, size_t{7}, states.size()}) {
        const auto results = machine.sample(states, rows, at_once);
        for (size_t i = 0; i < states.size(); ++i) {
            INFO("row " << i << ", " << at_once << " at once");
            std::vector<float> row = rows[i];
            const SampledToken expected = sample(states[i], row, scratch).value();
            REQUIRE(results[i].ok());
            CHECK(results[i]->token_id == expected.token_id);
            REQUIRE(results[i]->logprobs.has_value() == expected.logprobs.has_value());
            if (expected.logprobs) check_same_logprobs(*results[i]->logprobs, *expected.logprobs);
        }
    }
}

TEST_CASE("a device chooses what the host chooses under token masks") {
    Machine machine;
    SamplerScratch scratch;
    std::vector<SequenceSamplingState> states;
    std::vector<std::vector<float>> rows;
    for (const SamplingParams& params : many_params()) {
        states.push_back(state_of(params, 100 + states.size()));
        rows.push_back(make_row(static_cast<uint32_t>(rows.size())));
    }
    const Masks masks = masks_of(rows.size());
    const auto results = machine.sample(states, rows, 5, masks);
    for (size_t i = 0; i < states.size(); ++i) {
        INFO("row " << i);
        std::vector<float> row = rows[i];
        const SampledToken expected = sample(states[i], row, scratch, masks[i]).value();
        REQUIRE(results[i].ok());
        CHECK(results[i]->token_id == expected.token_id);
        const auto token = static_cast<size_t>(expected.token_id);
        CHECK((masks[i].empty() || (masks[i][token / 32] >> (token % 32) & 1) != 0));
        if (expected.logprobs) check_same_logprobs(*results[i]->logprobs, *expected.logprobs);
    }
}

TEST_CASE("rows that are no numbers, and rows of which nothing is left, end their own sequence") {
    Machine machine;
    SamplerScratch scratch;
    std::vector<SamplingParams> params = many_params();
    params.resize(7);
    std::vector<std::vector<float>> rows;
    for (uint32_t i = 0; i < 7; ++i) rows.push_back(make_row(i));
    rows[0][150] = std::nanf("");
    rows[1].assign(kVocab, -kInfinity);
    rows[3][20] = kInfinity;
    // Forbidden below, so that only the row as the model gave it tells.
    rows[6][20] = std::nanf("");
    params[5].allowed_token_ids = {};
    params[5].bad_words = {{7}};
    params[5].min_tokens = 50;
    rows[5].assign(kVocab, -kInfinity);
    rows[5][5] = rows[5][7] = 1.0f;
    std::vector<SequenceSamplingState> states;
    for (const SamplingParams& one : params) states.push_back(state_of(one, 1));
    const auto results = machine.sample(states, rows, 7);
    for (size_t i = 0; i < rows.size(); ++i) {
        INFO("row " << i);
        std::vector<float> row = rows[i];
        const Result<SampledToken> expected = sample(states[i], row, scratch);
        REQUIRE(results[i].ok() == expected.ok());
        if (expected.ok()) {
            CHECK(results[i]->token_id == expected->token_id);
        } else {
            CHECK(results[i].fault().message == expected.fault().message);
            CHECK(results[i].fault().kind == expected.fault().kind);
        }
    }
    CHECK(results[5].fault().kind == ErrorKind::bad_data);
}

TEST_CASE("the token after one that is expected is the one that comes after it") {
    ThreadPool threads(1);
    ScratchArena scratch;
    Context context;
    context.threads = &threads;
    context.scratch = &scratch;
    DeviceSampler sampler{ComputeDevice()};
    SamplerScratch buffers;
    for (uint64_t seed = 1; seed < 20; ++seed) {
        SequenceSamplingState state = state_of({}, seed);
        std::vector<float> logits = make_row(3);
        const std::vector<const SequenceSamplingState*> states{&state};
        const std::vector<uint8_t> expecting{1};
        sampler.begin();
        sampler.sample(context, states, TensorView(logits.data(), DType::f32, {1, kVocab}),
                       expecting);
        sampler.fetch(context);
        CHECK(*static_cast<const int32_t*>(sampler.token_place(0)) == sampler.result(0)->token_id);
        state.accept(9);
        std::vector<float> row = make_row(3);
        CHECK(sampler.result(0)->token_id == sample(state, row, buffers).value().token_id);
    }
}

TEST_CASE("what can be chosen before its predecessor is known") {
    SamplingParams params;
    params.top_p = 0.5f;
    params.logit_bias = {{3, 1.0f}};
    params.logprobs = 3;
    CHECK(DeviceSampler::can_expect(params));
    for (int which = 0; which < 6; ++which) {
        SamplingParams requester;
        if (which == 0) requester.bad_words = {{4, 5}};
        if (which == 1) requester.min_tokens = 2;
        if (which == 2) requester.repetition_penalty = 1.5f;
        if (which == 3) requester.presence_penalty = 0.5f;
        if (which == 4) requester.frequency_penalty = 0.5f;
        if (which == 5) requester.typical_p = 0.5f;
        CHECK(!DeviceSampler::can_expect(requester));
    }
}

TEST_CASE("what the ops lack is left to the host") {
    SamplingParams params;
    CHECK(DeviceSampler::can_sample(params));
    params.typical_p = 0.5f;
    CHECK(!DeviceSampler::can_sample(params));
    params = {};
    params.top_n_sigma = 1.0f;
    CHECK(!DeviceSampler::can_sample(params));
    for (int which = 0; which < 9; ++which) {
        params = {};
        if (which == 0) params.no_repeat_ngram_size = 2;
        if (which == 1) params.suppress_tokens = {1};
        if (which == 2) params.begin_suppress_tokens = {1};
        if (which == 3) params.forced_bos_token_id = 1;
        if (which == 4) params.forced_eos_token_ids = {1};
        if (which == 5) params.end_boost = EndBoost{3, 1.1f};
        if (which == 6) params.top_h = 0.5f;
        if (which == 7) params.epsilon_cutoff = 0.1f;
        if (which == 8) params.eta_cutoff = 0.1f;
        CAPTURE(which);
        CHECK(!DeviceSampler::can_sample(params));
    }
    params = {};
    params.sampler_order = {"top_p", "temperature"};
    CHECK(!DeviceSampler::can_sample(params));
    params = {};
    params.logprobs = 129;
    CHECK(!DeviceSampler::can_sample(params));
    params = {};
    params.logit_bias = {{3, 1.0f}, {3, 1.0f}};
    CHECK(!DeviceSampler::can_sample(params));
}
