// Numbers and order of uncommitted plans.
#include "lib/schedule/state/plans_in_flight.h"

#include "kernels/error.h"

namespace nvllm {

const PlanInFlight& PlansInFlight::oldest_of(const StepResult& result) const {
    NVLLM_CHECK(!plans_.empty(), "no plan is in flight");
    const PlanInFlight& plan = plans_.front();
    NVLLM_CHECK(result.plan_number == plan.number, "results come in the order of the plans");
    NVLLM_CHECK(result.sequences.size() == plan.entries.size(),
                "a result has one step for each entry");
    return plan;
}

PlanInFlight PlansInFlight::take_oldest() {
    PlanInFlight plan = std::move(plans_.front());
    plans_.pop_front();
    return plan;
}

void PlansInFlight::forget_all() {
    for (const PlanInFlight& plan : plans_) {
        for (const PlannedEntry& entry : plan.entries) entry.sequence->num_plans = 0;
    }
    plans_.clear();
}

}  // namespace nvllm
