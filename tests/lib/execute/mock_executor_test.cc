// The worker without a model: which token comes when, whatever became of the sequence meanwhile.
#include "lib/execute/mock_executor.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace nvllm;
using std::chrono::microseconds;

namespace {

AddedSequence added(SequenceId id, std::vector<int32_t> tokens, int32_t num_prompt_tokens) {
    AddedSequence sequence;
    sequence.sequence = id;
    sequence.token_ids = std::move(tokens);
    sequence.num_prompt_tokens = num_prompt_tokens;
    sequence.eos_token_ids = {1};
    return sequence;
}

PlanEntry entry(SequenceId id, int32_t first, int32_t count,
                OutputKind output = OutputKind::sample) {
    PlanEntry entry;
    entry.sequence = id;
    entry.first = first;
    entry.count = count;
    entry.output = output;
    return entry;
}

BatchPlan plan_of(std::vector<AddedSequence> added, std::vector<PlanEntry> entries) {
    BatchPlan plan;
    plan.added = std::move(added);
    plan.entries = std::move(entries);
    return plan;
}

using Ids = std::vector<int32_t>;

}  // namespace

TEST_CASE("a prompt comes back token by token, from its beginning when it is through") {
    MockExecutor metronome(microseconds(0));
    CHECK(
        metronome.execute(plan_of({added(7, {20, 21, 22}, 3)}, {entry(7, 0, 2, OutputKind::none)}))
            .sequences[0]
            .token_ids.empty());
    Ids answer;
    for (int32_t first = 2; first < 7; ++first) {
        const StepResult result = metronome.execute(plan_of({}, {entry(7, first, 1)}));
        REQUIRE(result.sequences.size() == 1);
        CHECK(result.sequences[0].sequence == 7);
        answer.push_back(result.sequences[0].token_ids.at(0));
    }
    CHECK(answer == Ids{20, 21, 22, 20, 21});
}

TEST_CASE("a sequence that is told again goes on where it was") {
    MockExecutor metronome(microseconds(0));
    metronome.execute(plan_of({added(7, {20, 21, 22}, 3)}, {entry(7, 0, 3)}));
    metronome.forget();
    const auto result =
        metronome.execute(plan_of({added(7, {20, 21, 22, 20, 21}, 3)}, {entry(7, 0, 5)}));
    CHECK(result.sequences[0].token_ids == Ids{22});
}

TEST_CASE("end tokens are left out, continuations begin one after the other") {
    MockExecutor metronome(microseconds(0));
    AddedSequence second = added(8, {1, 20, 21, 1}, 4);
    second.index = 1;
    const auto result = metronome.execute(
        plan_of({added(7, {1, 20, 21, 1}, 4), second}, {entry(7, 0, 4), entry(8, 0, 4)}));
    CHECK(result.sequences[0].token_ids == Ids{20});
    CHECK(result.sequences[1].token_ids == Ids{21});
}

TEST_CASE("what needs logits is that request's fault") {
    MockExecutor metronome(microseconds(0));
    AddedSequence scored = added(7, {20, 21}, 2);
    scored.sampling.prompt_logprobs = 1;
    AddedSequence plain = added(8, {20, 21}, 2);
    plain.sampling.logprobs = 0;
    const auto result =
        metronome.execute(plan_of({scored, plain}, {entry(7, 0, 2), entry(8, 0, 2)}));
    CHECK(result.sequences[0].fault.has_value());
    CHECK(!result.sequences[1].fault.has_value());
    REQUIRE(result.sequences[1].logprobs.size() == 1);
    CHECK(result.sequences[1].logprobs[0].chosen.token_id == 20);
}

TEST_CASE("beats are apart as the environment says") {
    ::setenv("NVLLM_METRONOME_MS", "2.5", 1);
    CHECK(mock_interval() == microseconds(2500));
    ::setenv("NVLLM_METRONOME_MS", "soon", 1);
    CHECK_THROWS_AS(mock_interval(), Error);
    ::setenv("NVLLM_METRONOME_MS", "-1", 1);
    CHECK_THROWS_AS(mock_interval(), Error);
    ::unsetenv("NVLLM_METRONOME_MS");
    CHECK(mock_interval() == microseconds(10'000));

    MockExecutor metronome(microseconds(20'000));
    const auto begin = std::chrono::steady_clock::now();
    metronome.execute(plan_of({added(7, {20}, 1)}, {entry(7, 0, 1)}));
    metronome.execute(plan_of({}, {entry(7, 1, 1)}));
    metronome.execute(plan_of({}, {entry(7, 2, 1)}));
    CHECK(std::chrono::steady_clock::now() - begin >= microseconds(40'000));
}
