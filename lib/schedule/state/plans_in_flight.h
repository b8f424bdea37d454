// The plans that are not committed yet.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"
#include "lib/schedule/state/scheduled_sequence.h"

namespace nvllm {

struct PlannedEntry {
    ScheduledSequence* sequence = nullptr;
    int32_t count = 0;  // draft tokens included
    OutputKind output = OutputKind::none;

    // Known tokens are left after it.
    bool partial() const { return output == OutputKind::none; }
};

// Draft tokens at the end of an entry.
struct PlannedDrafts {
    uint32_t entry = 0;  // index
    int32_t count = 0;
    bool is_forced = false;  // of a text that must follow
};

struct PlanInFlight {
    uint64_t number = 0;
    std::vector<PlannedEntry> entries;  // as in the plan
    std::vector<PlannedDrafts> drafts;  // of some entries, in their order
    bool lets_plan_ahead = true;        // the worker finds by itself all tokens that it leaves open
};

// Plans are numbered from 1 and committed in their order.
class PlansInFlight {
  public:
    bool empty() const { return plans_.empty(); }
    int32_t size() const { return static_cast<int32_t>(plans_.size()); }
    const std::deque<PlanInFlight>& all() const { return plans_; }
    const PlanInFlight& newest() const { return plans_.back(); }
    // The number of the latest plan; 0: there was none.
    uint64_t last_number() const { return last_number_; }
    uint64_t next_number() { return ++last_number_; }

    PlanInFlight& add(PlanInFlight&& plan) { return plans_.emplace_back(std::move(plan)); }
    // The oldest plan. REQUIRES: the result is of this plan.
    const PlanInFlight& oldest_of(const StepResult& result) const;
    // Removes the oldest plan. REQUIRES: not empty.
    PlanInFlight take_oldest();
    // The worker is gone: no result will come.
    void forget_all();

  private:
    std::deque<PlanInFlight> plans_;  // oldest first
    uint64_t last_number_ = 0;
};

}  // namespace nvllm
