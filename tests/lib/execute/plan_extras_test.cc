// Drafts and masks of entries: found by entry, refused where they do not fit the plan.
#include "lib/execute/plan_extras.h"

#include <doctest/doctest.h>

#include <functional>

#include "kernels/error.h"

using namespace nvllm;

namespace {

constexpr int32_t kVocab = 40;  // masks have two words a row

// Entry 1 has two drafts and a mask, entry 2 a mask alone.
BatchPlan plan_with_extras() {
    BatchPlan plan;
    for (SequenceId sequence = 1; sequence <= 3; ++sequence) {
        PlanEntry& entry = plan.entries.emplace_back();
        entry.sequence = sequence;
        entry.count = sequence == 2 ? 3 : 1;
        entry.output = OutputKind::sample;
    }
    plan.extras.push_back(
        {.entry = 1, .drafts = {{7, 8}, {0, 1}}, .token_mask = {1, 2, 3, 4, 5, 6}});
    plan.extras.push_back({.entry = 2, .drafts = {}, .token_mask = {8, 9}});
    return plan;
}

}  // namespace

TEST_CASE("extras are found by entry") {
    const BatchPlan plan = plan_with_extras();
    const PlanExtras extras(plan, kVocab);
    CHECK(extras.drafts(0).empty());
    CHECK(extras.token_mask(0, 0).empty());
    REQUIRE(extras.drafts(1).size() == 2);
    CHECK(extras.drafts(1).token_ids[1] == 8);
    REQUIRE(extras.token_mask(1, 2).size() == 2);
    CHECK(extras.token_mask(1, 2)[0] == 5);
    CHECK(extras.drafts(2).empty());
    CHECK(extras.token_mask(2, 0)[1] == 9);
}

TEST_CASE("drafts without parents are a chain, and so are those that follow each other") {
    CHECK_FALSE(DraftTokens{{1, 2, 3}, {}}.branches());
    CHECK_FALSE(DraftTokens{{1, 2, 3}, {0, 1, 2}}.branches());
    CHECK(DraftTokens{{1, 2, 3}, {0, 0, 2}}.branches());
    CHECK(DraftTokens{{1, 2, 3}, {}}.parent(3) == 2);
    CHECK(DraftTokens{{1, 2, 3}, {0, 0, 2}}.parent(2) == 0);
}

TEST_CASE("extras that do not fit their plan are refused") {
    const std::vector<std::function<void(BatchPlan&)>> changes = {
        [](BatchPlan& plan) { plan.extras[1].entry = 3; },
        [](BatchPlan& plan) { plan.extras[1].entry = 1; },
        [](BatchPlan& plan) { plan.entries[2].output = OutputKind::candidates; },
        [](BatchPlan& plan) { plan.entries[1].count = 2; },
        [](BatchPlan& plan) { plan.extras[0].drafts.token_ids[0] = kVocab; },
        [](BatchPlan& plan) { plan.extras[0].drafts.token_ids[0] = -1; },
        [](BatchPlan& plan) {
            plan.extras[0].drafts.parents = {0, 2};
        },
        [](BatchPlan& plan) {
            plan.extras[0].drafts.parents = {-1, 0};
        },
        [](BatchPlan& plan) { plan.extras[0].drafts.parents = {0}; },
        [](BatchPlan& plan) { plan.extras[0].token_mask.pop_back(); },
        [](BatchPlan& plan) { plan.extras[1].token_mask.push_back(0); },
    };
    for (size_t i = 0; i < changes.size(); ++i) {
        CAPTURE(i);
        BatchPlan plan = plan_with_extras();
        changes[i](plan);
        CHECK_THROWS_AS(PlanExtras(plan, kVocab), Error);
    }
}
