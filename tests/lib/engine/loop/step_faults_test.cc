// What follows from steps that failed.
#include "lib/engine/loop/step_faults.h"

#include <doctest/doctest.h>

using namespace nvllm;

namespace {

using Ids = std::vector<SequenceId>;

BatchPlan plan_of(const Ids& sequences) {
    BatchPlan plan;
    for (const SequenceId sequence : sequences) plan.entries.emplace_back().sequence = sequence;
    return plan;
}

// Each of them got a token.
StepResult tokens_for(const Ids& sequences) {
    StepResult result;
    for (const SequenceId sequence : sequences) {
        result.sequences.push_back({.sequence = sequence,
                                    .token_ids = {7},
                                    .logprobs = {},
                                    .prompt_logprobs = {},
                                    .candidates = {},
                                    .embedding = {},
                                    .fault = {}});
    }
    return result;
}

StepResult nonfinite(const Ids& sequences) {
    StepResult result = tokens_for(sequences);
    for (SequenceStep& step : result.sequences) {
        step.token_ids.clear();
        step.fault = Fault{ErrorKind::internal, "not finite"};
    }
    return result;
}

bool all_live(SequenceId) { return true; }

}  // namespace

TEST_CASE("a step that failed once is tried again together") {
    StepFaults faults(512);
    CHECK(faults.note_failed(plan_of({1, 2, 3})).empty());
    CHECK(faults.limits(all_live) == PlanLimits{});
    CHECK(faults.counts.step_faults == 1);
}

TEST_CASE("after two failures each is tried alone, and only who fails then is given up") {
    StepFaults faults(512);
    faults.note_failed(plan_of({1, 2, 3}));
    faults.note_failed(plan_of({1, 2, 3, 4}));
    CHECK(faults.limits(all_live).alone == 1);
    faults.note_done(tokens_for({1}));
    CHECK(faults.limits(all_live).alone == 2);
    CHECK(faults.note_failed(plan_of({2})) == Ids{2});
    CHECK(faults.limits(all_live).alone == 3);
    faults.note_done(tokens_for({3}));
    CHECK_FALSE(faults.limits(all_live).alone);
    // A token in between makes a sequence as good as new.
    CHECK(faults.note_failed(plan_of({1, 3})).empty());
    faults.note_done(tokens_for({1, 3}));
    CHECK(faults.note_failed(plan_of({1, 3})).empty());
    CHECK(faults.counts.step_faults == 5);
}

TEST_CASE("a chunk that succeeds proves nothing, and the dead are not waited for") {
    StepFaults faults(512);
    faults.note_failed(plan_of({1, 2}));
    faults.note_failed(plan_of({1, 2}));
    StepResult chunk = tokens_for({1});
    chunk.sequences[0].token_ids.clear();
    faults.note_done(chunk);
    CHECK(faults.limits(all_live).alone == 1);
    CHECK(faults.limits([](SequenceId id) { return id != 1; }).alone == 2);
    CHECK(faults.limits(all_live).alone == 2);
}

TEST_CASE("want of memory cuts the tokens of a step, and the cut goes back") {
    StepFaults faults(100);
    faults.note_out_of_memory();
    CHECK(faults.limits(all_live).max_tokens == 70);
    faults.note_out_of_memory();
    CHECK(faults.limits(all_live).max_tokens == 49);
    CHECK(faults.counts.out_of_memory == 2);
    for (int step = 0; step < kStepsOfCut; ++step) faults.note_done(tokens_for({1}));
    CHECK(faults.limits(all_live).max_tokens == 70);
    for (int step = 0; step < 2 * kStepsOfCut; ++step) faults.note_done(tokens_for({1}));
    CHECK_FALSE(faults.limits(all_live).max_tokens);
    for (int i = 0; i < 50; ++i) faults.note_out_of_memory();
    CHECK(faults.limits(all_live).max_tokens == 10);
}

TEST_CASE("weights are read again after too many rows in a row that are no numbers, once") {
    StepFaults faults(512);
    for (SequenceId id = 1; id <= 3; ++id) faults.note_done(nonfinite({id}));
    CHECK_FALSE(faults.takes_reload());
    faults.note_done(tokens_for({9}));
    faults.note_done(nonfinite({4, 5, 6}));
    CHECK_FALSE(faults.takes_reload());
    faults.note_done(nonfinite({7}));
    CHECK(faults.takes_reload());
    CHECK_FALSE(faults.takes_reload());
    // It did not help: not again and again.
    faults.note_done(nonfinite({10, 11, 12, 13, 14}));
    CHECK_FALSE(faults.takes_reload());
    faults.note_done(tokens_for({9}));
    faults.note_done(nonfinite({15, 16, 17, 18}));
    CHECK(faults.takes_reload());
    CHECK(faults.counts.weight_reloads == 2);
    CHECK(faults.counts.nonfinite_rows == 16);
}
