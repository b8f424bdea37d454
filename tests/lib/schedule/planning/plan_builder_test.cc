// A plan under construction.
#include "lib/schedule/planning/plan_builder.h"

#include <doctest/doctest.h>

#include "tests/lib/schedule/parts.h"

namespace nvllm {
namespace {

TEST_CASE("an entry that reaches the last known token samples") {
    Parts parts;
    Request request = endless(1, 6, 4);
    request.adapter.key = "tuned";
    request.adapter.id = 3;
    ScheduledSequence& scheduled = parts.add(request);
    scheduled.sequence.start(0, 0.0);
    PlanBuilder builder = parts.builder();
    builder.register_sequence(scheduled, {{}});
    builder.add_entry(scheduled, 4, {{0}});
    CHECK(builder.plan.added.at(0).adapter == 3);
    CHECK(builder.plan.entries.at(0).output == OutputKind::none);
    CHECK(builder.entries.at(0).partial());
    PlanBuilder next = parts.builder();
    scheduled.unsent_tokens = {9};
    next.add_entry(scheduled, 2, {});
    CHECK(next.plan.entries.at(0).first == 4);
    CHECK(next.plan.entries[0].output == OutputKind::sample);
    CHECK(next.plan.entries[0].new_token_ids == std::vector<int32_t>{9});
    CHECK(scheduled.unsent_tokens.empty());
}

TEST_CASE("a dropped entry gives its tokens back") {
    SchedulerConfig config = small_config();
    config.max_num_batched_tokens = 8;
    Parts parts(config);
    ScheduledSequence& one = parts.add(endless(1, 6, 4));
    ScheduledSequence& two = parts.add(endless(2, 6, 4));
    PlanBuilder builder = parts.builder();
    for (ScheduledSequence* scheduled : {&one, &two}) {
        scheduled->sequence.start(0, 0.0);
        builder.register_sequence(*scheduled, {{}});
    }
    builder.add_entry(one, 6, {});
    builder.add_entry(two, 2, {});
    CHECK(builder.budget.spent());
    builder.drop_entry(one);
    CHECK(builder.budget.left() == 6);
    CHECK(one.sequence.num_in_flight == 0);
    CHECK_FALSE(one.is_registered);
    REQUIRE(builder.plan.entries.size() == 1);
    CHECK(builder.plan.entries[0].sequence == 2);
    CHECK(builder.plan.added.size() == 1);
    builder.drop_entry(one);  // is not in the plan
    CHECK(builder.entries.size() == 1);
}

TEST_CASE("limits cut the budget and leave sequences out") {
    Parts parts;
    const ScheduledSequence& one = parts.add(endless(1, 6, 4));
    const ScheduledSequence& two = parts.add(endless(2, 6, 4));
    const PlanBuilder builder = parts.builder({.alone = 2, .max_tokens = 5});
    CHECK(builder.leaves_out(one));
    CHECK_FALSE(builder.leaves_out(two));
    CHECK(builder.budget.left() == 5);
}

TEST_CASE("drafts lengthen an entry and are placeholders of the sequence") {
    Parts parts;
    ScheduledSequence& scheduled = parts.add_running(endless(1, 6, 9));
    PlanBuilder builder = parts.builder();
    builder.add_entry(scheduled, 1, {});
    builder.add_drafts(0, {.token_ids = {5, 6, 7}, .parents = {}});
    CHECK(builder.plan.entries[0].count == 4);
    CHECK(builder.entries[0].count == 4);
    REQUIRE(builder.plan.extras.size() == 1);
    CHECK(builder.plan.extras[0].drafts.size() == 3);
    CHECK(builder.plan.num_tokens() == 4);
    CHECK(builder.plan.num_prefill_tokens() == 0);
    CHECK(scheduled.sequence.num_unplanned() == 0);
    CHECK(scheduled.sequence.num_placeholders == 3);
    CHECK(builder.budget.left() == 32 - 4);
}

}  // namespace
}  // namespace nvllm
