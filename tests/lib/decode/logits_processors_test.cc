// Each processor and each pair of them against transformers; edges that its classes do not define.
#include "lib/decode/logits_processors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>

#include "tests/lib/decode/logits_cases.h"
#include "tests/shared_data.h"

using namespace nvllm;
using namespace nvllm::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Outcome {
    std::vector<int32_t> token_ids;  // best first
    std::vector<double> logprobs;
    double largest_score = 0.0;  // by size, after the temperature
};

Outcome process(const SequenceSamplingState& state, std::vector<float> logits) {
    Scores scores;
    scores.reset(logits);
    change_row(state, scores);
    scores.max();
    narrow(state, scores);
    Outcome outcome;
    for (const float score : logits) {
        if (!std::isfinite(score)) continue;
        const double scaled = std::fabs(score) / state.params().temperature;
        outcome.largest_score = std::max(outcome.largest_score, scaled);
    }
    const double temperature = state.params().temperature;
    const double log_total = std::log(scores.total_weight());
    for (const Candidate& candidate : scores.best(logits.size())) {
        outcome.token_ids.push_back(candidate.token_id);
        const double distance = static_cast<double>(candidate.score) - scores.max();
        outcome.logprobs.push_back(distance / temperature - log_total);
    }
    return outcome;
}

SequenceSamplingState state_for(const LogitsRow& row, const std::vector<std::string>& processors) {
    SamplingParams params;
    params.seed = 1;
    params.stop_token_ids = row.stop_token_ids;
    params.max_tokens = row.max_tokens;
    for (const std::string& name : processors) switch_on(params, name, row.params[name]);
    return {params, row.token_ids, row.num_prompt_tokens, row.eos_token_ids, 0};
}

SequenceSamplingState simple_state(SamplingParams params) {
    params.seed = 1;
    return {params, std::vector<int32_t>{0}, 1, {}, 0};
}

enum class Match { same, same_but_for_equals, different };

// Of equal scores at the edge of top-p, transformers keeps any: then only the values can be
// compared.
Match compare(const Outcome& outcome, const ExpectedRow& expected) {
    if (outcome.token_ids.size() != expected.token_ids.size()) return Match::different;
    std::vector<float> values = expected.logprobs;
    std::sort(values.begin(), values.end(), std::greater<>());
    // transformers scales and subtracts in float32, where a low temperature makes scores of
    // thousands.
    const double tolerance = 1e-5 + 2.5e-7 * outcome.largest_score;
    for (size_t index = 0; index < values.size(); ++index) {
        const double difference = std::fabs(outcome.logprobs[index] - values[index]);
        if (difference > tolerance) return Match::different;
    }
    std::vector<int32_t> ids = outcome.token_ids;
    std::sort(ids.begin(), ids.end());
    return ids == expected.token_ids ? Match::same : Match::same_but_for_equals;
}

bool lowest_value_is_shared(const SequenceSamplingState& state, const LogitsRow& row,
                            const Outcome& outcome) {
    std::vector<float> logits = row.logits;
    Scores scores;
    scores.reset(logits);
    change_row(state, scores);
    const float lowest = logits[static_cast<size_t>(outcome.token_ids.back())];
    return std::count(logits.begin(), logits.end(), lowest) > 1;
}

}  // namespace

TEST_CASE("processors alone and in pairs do what those of transformers do") {
    const char* other = std::getenv("NVLLM_LOGITS_CASES");
    const LogitsCases cases = read_logits_cases(
        other != nullptr ? other
                         : source_path("tests/fixtures/decode/logits_processors.json").string());
    REQUIRE(cases.cases.size() == 145);
    int num_same = 0, num_equals = 0, num_different = 0;
    for (const LogitsCase& entry : cases.cases) {
        for (size_t index = 0; index < cases.rows.size(); ++index) {
            const LogitsRow& row = cases.rows[index];
            const SequenceSamplingState state = state_for(row, entry.processors);
            const Outcome outcome = process(state, row.logits);
            const Match match = compare(outcome, entry.expected[index]);
            num_same += match == Match::same;
            num_equals += match == Match::same_but_for_equals;
            num_different += match == Match::different;
            CAPTURE(entry.processors.front());
            CAPTURE(entry.processors.back());
            CAPTURE(index);
            CAPTURE(outcome.token_ids.size());
            CAPTURE(entry.expected[index].token_ids.size());
            CHECK(match != Match::different);
            if (match == Match::same_but_for_equals)
                CHECK(lowest_value_is_shared(state, row, outcome));
        }
    }
    std::cout << "logits processors against transformers: " << num_same << " rows the same, "
              << num_equals << " but for the choice among equals, " << num_different
              << " different\n";
}

TEST_CASE("the table names each processor once, row-changing ones first") {
    bool row_part = true;
    std::vector<std::string> names;
    for (const LogitsProcessor& processor : logits_processors()) {
        CHECK((row_part || !processor.changes_row));
        row_part = processor.changes_row;
        names.push_back(processor.name);
    }
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
    CHECK(names.size() == 22);
}

TEST_CASE("nothing is needed for default parameters") {
    const SequenceSamplingState state = simple_state({});
    for (const LogitsProcessor& processor : logits_processors()) {
        CAPTURE(processor.name);
        CHECK(!processor.needed(state));
    }
}

TEST_CASE("a tiny temperature leaves the best token all the weight and does not overflow") {
    SamplingParams params;
    for (const float temperature : {1e-3f, 1e-20f, 1e-45f}) {
        params.temperature = temperature;
        const Outcome outcome =
            process(simple_state(params), {-3e38f, 10.0f, 9.0f, 3e38f, -kInfinity});
        CHECK(outcome.token_ids.front() == 3);
        CHECK(outcome.logprobs.front() == 0.0);
    }
}

TEST_CASE("top-k keeps all that equal the last; top-p the lower ids of equals") {
    SamplingParams params;
    params.top_k = 2;
    CHECK(process(simple_state(params), {1, 3, 1, 0, 1}).token_ids ==
          std::vector<int32_t>{1, 0, 2, 4});
    params = {};
    params.top_p = 0.5f;
    CHECK(process(simple_state(params), {1, 1, 1, 1}).token_ids == std::vector<int32_t>{0, 1});
    params.top_p = 1e-30f;
    CHECK(process(simple_state(params), {1, 2, 2, 1}).token_ids == std::vector<int32_t>{1});
}

TEST_CASE("a vocabulary of one token survives every processor") {
    SamplingParams params;
    params.temperature = 0.5f;
    params.top_k = 5;
    params.top_p = 0.1f;
    params.min_p = 1.0f;
    params.repetition_penalty = 2.0f;
    CHECK(process(simple_state(params), {-4.0f}).token_ids == std::vector<int32_t>{0});
}

TEST_CASE("sampler_order names what is applied, in its order") {
    SamplingParams params;
    params.temperature = 0.5f;
    params.top_p = 0.7f;
    params.top_k = 1;
    const std::vector<float> logits = {0.0f, 1.0f, 0.5f};
    params.sampler_order = {"top_p", "temperature"};
    const Outcome first = process(simple_state(params), logits);
    CHECK(first.token_ids == std::vector<int32_t>{1, 2});
    CHECK(first.logprobs[1] - first.logprobs[0] == doctest::Approx(-1.0));
    params.sampler_order = {"temperature", "top_p"};
    CHECK(process(simple_state(params), logits).token_ids == std::vector<int32_t>{1, 2});
}

TEST_CASE(
    "bad words are forbidden as they are about to be completed, in whatever order tokens came") {
    SamplingParams params;
    params.seed = 1;
    params.bad_words = {{3, 4, 0}, {2}};
    SequenceSamplingState state(params, std::vector<int32_t>{3}, 1, {}, 0);
    CHECK(process(state, {5, 5, 5}).token_ids == std::vector<int32_t>{0, 1});
    state.accept(4);
    CHECK(process(state, {5, 5, 5}).token_ids == std::vector<int32_t>{1});
    state.accept(1);
    CHECK(process(state, {5, 5, 5}).token_ids == std::vector<int32_t>{0, 1});
}

TEST_CASE("repeated n-grams are seen across the prompt's end, and after a preemption") {
    SamplingParams params;
    params.seed = 1;
    params.no_repeat_ngram_size = 3;
    const std::vector<int32_t> tokens = {1, 2, 3, 0, 1, 2};
    SequenceSamplingState grown(params, std::vector<int32_t>(tokens.begin(), tokens.begin() + 4), 4,
                                {}, 0);
    grown.accept(1);
    grown.accept(2);
    const SequenceSamplingState again(params, tokens, 4, {}, 0);
    for (const SequenceSamplingState* state : {&std::as_const(grown), &again}) {
        const Outcome outcome = process(*state, {0, 0, 0, 9, 0});
        CHECK(outcome.token_ids == std::vector<int32_t>{0, 1, 2, 4});
    }
}

TEST_CASE("the first token behind a forced one is where suppression begins") {
    SamplingParams params;
    params.seed = 1;
    params.forced_bos_token_id = 2;
    params.begin_suppress_tokens = {1, 2};
    SequenceSamplingState state(params, std::vector<int32_t>{0}, 1, {}, 0);
    CHECK(process(state, {5, 4, 3, 2}).token_ids == std::vector<int32_t>{2});
    state.accept(2);
    CHECK(process(state, {5, 4, 3, 2}).token_ids == std::vector<int32_t>{0, 3});
    state.accept(0);
    CHECK(process(state, {5, 4, 3, 2}).token_ids == std::vector<int32_t>{0, 1, 2, 3});
}

TEST_CASE("ids outside of the row are passed over") {
    SamplingParams params;
    params.logit_bias = {{7, 1.0f}, {-1, 1.0f}, {1, 1.0f}};
    params.stop_token_ids = {99};
    params.min_tokens = 5;
    params.repetition_penalty = 2.0f;
    params.seed = 1;
    const SequenceSamplingState state(params, std::vector<int32_t>{500, 0}, 2, {}, 0);
    CHECK(process(state, {4.0f, 4.0f}).token_ids == std::vector<int32_t>{1, 0});
}

TEST_CASE(
    "min_tokens forbids end tokens until there are enough, and the model's own unless ignored") {
    SamplingParams params;
    params.seed = 1;
    params.min_tokens = 1;
    params.stop_token_ids = {0};
    const std::vector<int32_t> prompt = {2}, eos = {1};
    SequenceSamplingState state(params, prompt, 1, eos, 0);
    CHECK(process(state, {5, 5, 5}).token_ids == std::vector<int32_t>{2});
    state.accept(2);
    CHECK(process(state, {5, 5, 5}).token_ids == std::vector<int32_t>{0, 1, 2});
    params.ignore_eos = true;
    const SequenceSamplingState ignoring(params, prompt, 1, eos, 0);
    CHECK(process(ignoring, {5, 5, 5}).token_ids == std::vector<int32_t>{1, 2});
}

TEST_CASE("penalties count each token as it is generated, the same after a preemption") {
    SamplingParams params;
    params.seed = 1;
    params.repetition_penalty = 1.5f;
    params.frequency_penalty = 0.25f;
    params.presence_penalty = 0.5f;
    std::vector<int32_t> tokens = {1, 2};
    SequenceSamplingState grown(params, tokens, 2, {}, 0);
    for (int32_t step = 0; step < 200; ++step) {
        const int32_t token = (step * 37) % 101;
        tokens.push_back(token);
        grown.accept(token);
    }
    const SequenceSamplingState rebuilt(params, tokens, 2, {}, 0);
    std::vector<float> logits(101);
    for (size_t index = 0; index < logits.size(); ++index)
        logits[index] = std::sin(static_cast<float>(index));
    const Outcome first = process(grown, logits), second = process(rebuilt, logits);
    CHECK(first.token_ids == second.token_ids);
    CHECK(first.logprobs == second.logprobs);
    CHECK(grown.num_generated() == rebuilt.num_generated());
}
