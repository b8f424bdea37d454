// Speculation: adds draft tokens to planned entries, and rolls rejected ones back at the commit.
//
// Drafts come from the worker's last result for the sequence, or from a proposer; how many, says
// DraftLengths, where the configuration lets them become fewer. Where the worker's model proposes
// them, each plan asks for those of the next one. Where a grammar lets one text come, its tokens
// are drafts before all others. An entry with
// drafts computes the last known token and the drafts after it; the worker accepts the drafts that
// it would have chosen (Leviathan et al. 2023, "Fast Inference from Transformers via Speculative
// Decoding"). Until the commit the drafts are placeholders of the sequence: its next tokens are not
// planned before. Drafts get only tokens of the step and blocks that no other sequence needs, and
// never cause a preemption.
//
// The KV of a rejected draft stays in a block of the sequence until the next step overwrites it.
// The prefix cache never holds it: only computed positions are inserted.
//
// In a tree, the KV of an accepted draft may lie in the slot of another position. The worker moves
// it in the same step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/schedule/planning/draft_proposer.h"
#include "lib/schedule/planning/plan_builder.h"
#include "lib/schedule/speculation/draft_lengths.h"
#include "lib/schedule/speculation/forced_drafts.h"
#include "lib/schedule/state/plans_in_flight.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/scheduling_context.h"
#include "lib/schedule/step_time.h"

namespace nvllm {

class DraftPlanner {
  public:
    // `proposer`: in place of the configuration's; null: that one. It outlives the planner.
    DraftPlanner(SchedulingContext& context, const RunningSet& running, DraftProposer* proposer);

    // Adds drafts to entries that compute one known token and sample. The last change of a plan.
    void add_drafts(PlanBuilder& builder) {
        if (proposes() || may_force(builder)) add_to_entries(builder);
    }
    // Rejected drafts leave the plan's entries, before these are committed.
    void roll_back(PlanInFlight& plan, const StepResult& result,
                   std::span<const StopDecision> decisions);
    // Drafts that the worker proposes for the next entries, after the commit of this plan.
    void take_next_drafts(const PlanInFlight& plan, const StepResult& result);
    // A sequence came to its end by itself.
    void learn(const ScheduledSequence& scheduled);
    void observe(const StepObservation& step);

  private:
    // An entry that gets drafts.
    struct Chosen {
        size_t entry = 0;
        int32_t most = 0;
        DraftTokens forced;  // empty: of the method
    };
    // The method has something to propose.
    bool proposes() const { return proposer_ != nullptr || has_drafts_ || by_worker_; }
    bool may_force(const PlanBuilder& builder) const;
    void add_to_entries(PlanBuilder& builder);
    void list_candidates(const PlanBuilder& builder);
    // Those with a text that must follow are candidates no longer.
    void choose_forced(const PlanBuilder& builder);
    void choose_lengths(const PlanBuilder& builder);
    void add_to_entry(PlanBuilder& builder, Chosen&& chosen);
    // For the next plan, of the worker.
    void ask_worker(PlanBuilder& builder);
    void list_next_candidates(const PlanBuilder& builder);
    DraftTokens take_drafts(ScheduledSequence& scheduled);
    void count(ScheduledSequence& scheduled, const PlannedDrafts& drafts, const SequenceStep& step,
               std::span<const int32_t> accepted_rows);
    int32_t max_drafts(const PlanBuilder& builder, const Sequence& sequence) const;
    bool allocate(PlanBuilder& builder, size_t entry, int32_t num_drafts);

    SchedulingContext& context_;
    const RunningSet& running_;
    std::unique_ptr<DraftProposer> own_proposer_;
    DraftProposer* proposer_;
    std::optional<DraftLengths> lengths_;  // empty: always as many as are proposed
    bool by_worker_ = false;               // it is asked for some
    bool has_drafts_ = false;              // the worker has proposed some
    // Of the plan under construction or the next: entries that may have drafts, and how many each
    // gets.
    std::vector<size_t> entries_;
    std::vector<DraftCandidate> candidates_;
    std::vector<Chosen> chosen_;
    ForcedDrafts forced_;
};

}  // namespace nvllm
