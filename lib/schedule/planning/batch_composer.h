// Composes the next plan: which sequences compute how many tokens.
//
// The budget of tokens goes to running sequences with one token to compute, then to those with more
// in the order of the policy, then to waiting sequences; drafts get the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/schedule/planning/admission.h"
#include "lib/schedule/planning/beam_scheduler.h"
#include "lib/schedule/planning/draft_planner.h"
#include "lib/schedule/planning/plan_builder.h"
#include "lib/schedule/planning/preemptor.h"
#include "lib/schedule/planning/time_slicer.h"
#include "lib/schedule/state/plans_in_flight.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/scheduling_context.h"
#include "lib/schedule/state/worker_update.h"

namespace nvllm {

// The parts that give a plan its entries.
struct ComposerParts {
    Preemptor& preemptor;
    TimeSlicer& slicer;
    Admission& admission;
    BeamScheduler& beams;
    DraftPlanner& drafts;
};

class BatchComposer {
  public:
    BatchComposer(SchedulingContext& context, const WaitingQueue& waiting, RunningSet& running,
                  PlansInFlight& plans, WorkerUpdate& update, const ComposerParts& parts)
        : context_(context),
          waiting_(waiting),
          running_(running),
          plans_(plans),
          update_(update),
          parts_(parts) {}

    // Whether another plan may be in flight, and all tokens that it needs are known or chosen by
    // the worker itself.
    bool may_plan() const;
    // The next plan, with the worker's update. Nothing if no token can be computed, no block is to
    // be moved and no adapter comes. REQUIRES: may_plan().
    std::optional<BatchPlan> compose(int32_t token_budget, const PlanLimits& limits);

    // Whether the latest plan has as many tokens as it may.
    bool budget_was_spent() const { return budget_was_spent_; }

  private:
    // What only files have of the prompts of waiting sequences is to come.
    void begin_reads();
    PlanBuilder begin_plan(int32_t token_budget, const PlanLimits& limits);
    void plan_running(PlanBuilder& builder);
    void plan_sequence(PlanBuilder& builder, ScheduledSequence& scheduled);
    BatchPlan finalize(PlanBuilder& builder);
    void count(const PlanBuilder& builder);
    bool add_placeholder(const PlannedEntry& entry) const;

    SchedulingContext& context_;
    const WaitingQueue& waiting_;
    RunningSet& running_;
    PlansInFlight& plans_;
    WorkerUpdate& update_;
    ComposerParts parts_;
    std::vector<ScheduledSequence*> ordered_;  // of a plan under construction
    bool budget_was_spent_ = false;
};

}  // namespace nvllm
