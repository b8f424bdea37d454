// Numbers and order of plans in flight.
#include "lib/schedule/state/plans_in_flight.h"

#include <doctest/doctest.h>

#include "kernels/error.h"
#include "tests/lib/schedule/parts.h"

namespace nvllm {
namespace {

TEST_CASE("plans are committed in their order, any number of them") {
    Parts parts;
    ScheduledSequence& sequence = parts.add(endless(1, 4, 4));
    PlansInFlight& plans = parts.plans;
    for (int i = 0; i < 5; ++i) {
        PlanInFlight& plan = plans.add({.number = plans.next_number(),
                                        .entries = {{&sequence, 1, OutputKind::none}},
                                        .drafts = {}});
        CHECK(plan.number == static_cast<uint64_t>(i + 1));
        ++sequence.num_plans;
    }
    CHECK(plans.size() == 5);
    StepResult result{.plan_number = 1, .sequences = std::vector<SequenceStep>(1)};
    CHECK(plans.oldest_of(result).number == 1);
    result.plan_number = 2;
    CHECK_THROWS_AS(plans.oldest_of(result), Error);
    CHECK(plans.take_oldest().number == 1);
    result.sequences.clear();
    CHECK_THROWS_AS(plans.oldest_of(result), Error);
    plans.forget_all();
    CHECK(plans.empty());
    CHECK(sequence.num_plans == 0);
    CHECK(plans.next_number() == 6);  // numbers are not used again
    CHECK(plans.last_number() == 6);
}

}  // namespace
}  // namespace nvllm
