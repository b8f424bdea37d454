// Speculation: adds draft tokens to planned entries, and rolls rejected ones back at the commit.
//
// Drafts come from the worker's last result for the sequence, or from a proposer. An entry with
// drafts computes the last known token and the drafts after it; the worker accepts the drafts that
// it would have chosen (Leviathan et al. 2023, "Fast Inference from Transformers via Speculative
// Decoding"). Until the commit the drafts are placeholders of the sequence: its next tokens are not
// planned before. Drafts get only tokens of the step and blocks that no other sequence needs, and
// never cause a preemption.
//
// The KV of a rejected draft stays in a block of the sequence until the next step overwrites it.
// The prefix cache never holds it: only computed positions are inserted.
//
// In a tree, the KV of an accepted draft may lie in the slot of another position. Such drafts stay
// accepted, and the next step computes them again: no slot moves are planned.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/schedule/planning/draft_proposer.h"
#include "lib/schedule/planning/plan_builder.h"
#include "lib/schedule/state/plans_in_flight.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/scheduling_context.h"

namespace nvllm {

class DraftPlanner {
  public:
    // `proposer`: null: only the worker proposes. It outlives the planner.
    DraftPlanner(SchedulingContext& context, const RunningSet& running, DraftProposer* proposer)
        : context_(context), running_(running), proposer_(proposer) {}

    // Adds drafts to entries that compute one known token and sample. The last change of a plan.
    void add_drafts(PlanBuilder& builder) {
        if (proposer_ != nullptr || has_drafts_) add_to_entries(builder);
    }
    // Rejected drafts leave the plan's entries, before these are committed.
    void roll_back(PlanInFlight& plan, const StepResult& result,
                   std::span<const StopDecision> decisions) const;
    // Drafts that the worker proposes for the next entries, after the commit of this plan.
    void take_next_drafts(const PlanInFlight& plan, const StepResult& result);

  private:
    void add_to_entries(PlanBuilder& builder);
    DraftTokens take_drafts(ScheduledSequence& scheduled);
    int32_t max_drafts(const PlanBuilder& builder, const Sequence& sequence) const;
    bool allocate(PlanBuilder& builder, size_t entry, int32_t num_drafts);

    SchedulingContext& context_;
    const RunningSet& running_;
    DraftProposer* proposer_;
    bool has_drafts_ = false;  // the worker has proposed some
};

}  // namespace nvllm
