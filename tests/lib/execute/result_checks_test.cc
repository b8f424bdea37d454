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

// The first sequence verifies three drafts, two of which are accepted.
BatchPlan entries_with_drafts() {
    BatchPlan plan = three_entries();
    plan.entries[0].count = 4;
    plan.extras.push_back(
        {.entry = 0, .drafts = {{7, 8, 9}, {}}, .token_mask = {}, .num_next_drafts = 2});
    return plan;
}

StepResult accepted_drafts() {
    StepResult result = three_answers();
    result.sequences[0].token_ids = {7, 8, 10};
    result.sequences[0].logprobs.resize(3);
    result.extras.push_back({.entry = 0, .accepted_rows = {1, 2}, .next_drafts = {{1, 2}, {0, 0}}});
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

TEST_CASE("a token that its mask forbids is refused, in each row") {
    BatchPlan plan = entries_with_drafts();
    const auto words = static_cast<size_t>((kVocab + 31) / 32);
    plan.extras[0].token_mask.assign(4 * words, ~uint32_t{0});
    check_step_result(plan, accepted_drafts(), kVocab);
    for (const auto& [row, token] : {std::pair<size_t, size_t>{0, 7}, {1, 8}, {2, 10}}) {
        BatchPlan forbids = plan;
        forbids.extras[0].token_mask[row * words + token / 32] &= ~(uint32_t{1} << (token % 32));
        CHECK_THROWS_AS(check_step_result(forbids, accepted_drafts(), kVocab), Error);
    }
}

TEST_CASE("accepted drafts are those of the plan, and one token follows them") {
    check_step_result(entries_with_drafts(), accepted_drafts(), kVocab);
    CHECK_THROWS_AS(check_step_result(three_entries(), accepted_drafts(), kVocab), Error);
    const std::vector<std::function<void(StepResult&)>> changes = {
        [](StepResult& result) {
            result.sequences[0].token_ids = {7, 9, 10};
        },
        [](StepResult& result) { result.sequences[0].token_ids.clear(); },
        [](StepResult& result) {
            result.sequences[0].token_ids = {7, 8, 9, 1, 2};
        },
        [](StepResult& result) { result.sequences[0].logprobs.resize(1); },
        [](StepResult& result) { result.extras[0].entry = 3; },
        [](StepResult& result) { result.extras.push_back(result.extras[0]); },
        [](StepResult& result) { result.extras[0].accepted_rows = {1}; },
        [](StepResult& result) {
            result.extras[0].accepted_rows = {1, 3};
        },
        [](StepResult& result) { result.extras[0].next_drafts.token_ids[1] = kVocab; },
        [](StepResult& result) {
            result.extras[0].next_drafts = {{1, 2, 3}, {}};
        },
        [](StepResult& result) { result.extras[0].next_drafts.parents = {0}; },
        [](StepResult& result) {
            result.extras[0].next_drafts.parents = {0, 2};
        },
        [](StepResult& result) {
            result.extras[0].next_drafts.parents = {-1, 0};
        },
    };
    for (size_t i = 0; i < changes.size(); ++i) {
        CAPTURE(i);
        StepResult result = accepted_drafts();
        changes[i](result);
        CHECK_THROWS_AS(check_step_result(entries_with_drafts(), result, kVocab), Error);
    }
}

TEST_CASE("accepted drafts of a tree follow each other, and masks are those of their rows") {
    BatchPlan plan = entries_with_drafts();
    // Drafts 8 and 9 both follow 7.
    plan.extras[0].drafts.parents = {0, 1, 1};
    const auto words = static_cast<size_t>((kVocab + 31) / 32);
    plan.extras[0].token_mask.assign(4 * words, ~uint32_t{0});
    StepResult result = accepted_drafts();
    result.sequences[0].token_ids = {7, 9, 10};
    result.extras[0].accepted_rows = {1, 3};
    check_step_result(plan, result, kVocab);
    plan.extras[0].token_mask[2 * words] = 0;  // of draft 8
    check_step_result(plan, result, kVocab);
    plan.extras[0].token_mask[3 * words] = 0;
    CHECK_THROWS_AS(check_step_result(plan, result, kVocab), Error);
    plan.extras[0].token_mask.clear();
    result.extras[0].accepted_rows = {1, 2};
    CHECK_THROWS_AS(check_step_result(plan, result, kVocab), Error);
    result.sequences[0].token_ids = {8, 9, 10};
    result.extras[0].accepted_rows = {2, 3};
    CHECK_THROWS_AS(check_step_result(plan, result, kVocab), Error);
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
