// Answers that do not fit the plan.
#include "lib/execute/result_checks.h"

#include <doctest/doctest.h>

#include <functional>

#include "kernels/error.h"

using namespace nvllm;

namespace {

constexpr int32_t kVocab = 100;

// One sequence samples, one is in the middle of its prompt, one searches with two candidates.
BatchPlan three_entries() {
    BatchPlan plan;
    plan.number = 5;
    for (const OutputKind output : {OutputKind::sample, OutputKind::none, OutputKind::candidates}) {
        PlanEntry& entry = plan.entries.emplace_back();
        entry.sequence = plan.entries.size();
        entry.output = output;
        entry.num_candidates = output == OutputKind::candidates ? 2 : 0;
    }
    return plan;
}

StepResult three_answers() {
    StepResult result;
    result.plan_number = 5;
    result.sequences.resize(3);
    for (size_t i = 0; i < 3; ++i) result.sequences[i].sequence = i + 1;
    result.sequences[0].token_ids = {99};
    result.sequences[0].logprobs.resize(1);
    result.sequences[2].candidates.resize(2);
    return result;
}

}  // namespace

TEST_CASE("an answer to the plan is taken, also when a sequence failed") {
    StepResult result = three_answers();
    check_step_result(three_entries(), result, kVocab);
    result.sequences[0] = {.sequence = 1,
                           .token_ids = {},
                           .logprobs = {},
                           .prompt_logprobs = {},
                           .candidates = {},
                           .fault = Fault{ErrorKind::internal, "not finite"}};
    check_step_result(three_entries(), result, kVocab);
}

TEST_CASE("any other answer is refused") {
    const std::vector<std::function<void(StepResult&)>> changes = {
        [](StepResult& result) { result.plan_number = 4; },
        [](StepResult& result) { result.sequences.pop_back(); },
        [](StepResult& result) { result.sequences.emplace_back(); },
        [](StepResult& result) { result.sequences[1].sequence = 7; },
        [](StepResult& result) { result.sequences[0].token_ids.clear(); },
        [](StepResult& result) {
            result.sequences[0].token_ids = {1, 2};
        },
        [](StepResult& result) { result.sequences[0].token_ids = {kVocab}; },
        [](StepResult& result) { result.sequences[0].token_ids = {-1}; },
        [](StepResult& result) { result.sequences[1].token_ids = {1}; },
        [](StepResult& result) { result.sequences[0].logprobs.resize(2); },
        [](StepResult& result) { result.sequences[0].logprobs[0].chosen.token_id = kVocab; },
        [](StepResult& result) {
            result.sequences[0].logprobs[0].top = {{kVocab, 0.0f}};
        },
        [](StepResult& result) {
            result.sequences[1].prompt_logprobs.emplace_back().chosen.token_id = -5;
        },
        [](StepResult& result) { result.sequences[2].candidates.pop_back(); },
        [](StepResult& result) { result.sequences[2].candidates[1].token_id = kVocab; },
        [](StepResult& result) {
            result.sequences[0].fault = Fault{ErrorKind::internal, "and yet a token"};
        },
    };
    for (size_t i = 0; i < changes.size(); ++i) {
        CAPTURE(i);
        StepResult result = three_answers();
        changes[i](result);
        CHECK_THROWS_AS(check_step_result(three_entries(), result, kVocab), Error);
    }
}
