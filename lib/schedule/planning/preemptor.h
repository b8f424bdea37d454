// Takes blocks and slots from sequences: chooses victims, swaps them out or lets them compute
// again.
#pragma once

#include <cstdint>
#include <span>

#include "lib/schedule/planning/plan_builder.h"
#include "lib/schedule/planning/preemption_costs.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/scheduling_context.h"
#include "lib/schedule/state/waiting_queue.h"
#include "lib/schedule/state/worker_update.h"

namespace nvllm {

// Paused sequences are preempted first, the last in rank before the others; then running sequences
// that rank after `requester`, the last one first; any running sequence if `requester` is null.
// Null if `requester` ranks last itself: it keeps its blocks and waits.
ScheduledSequence* choose_victim(std::span<ScheduledSequence* const> running,
                                 std::span<ScheduledSequence* const> waiting,
                                 const ScheduledSequence* requester, const SchedulingPolicy& policy,
                                 double now_s);

// After preempt() and pause() the running set needs remove_left().
class Preemptor {
  public:
    Preemptor(SchedulingContext& context, WaitingQueue& waiting, RunningSet& running,
              WorkerUpdate& update)
        : context_(context), waiting_(waiting), running_(running), update_(update) {}

    // A step was measured.
    void observe(const StepObservation& step) { costs_.observe(step); }

    // A sequence frees blocks for `requester` now. False if none can: no victim ranks after it, or
    // blocks are freed only when a plan is committed.
    bool reclaim_for(PlanBuilder& builder, const ScheduledSequence& requester);
    // Frees the blocks of any sequence. REQUIRES: one is running or paused; no plan is in flight.
    void reclaim_any();

    // Frees the blocks of a running or paused sequence. REQUIRES: nothing of it is in flight.
    void preempt(ScheduledSequence& scheduled);
    // The sequence waits without blocks and has computed nothing; not in the queue yet.
    void recompute(ScheduledSequence& scheduled);
    // The sequence gives up its slot and keeps its blocks. REQUIRES: nothing of it is in flight.
    void pause(ScheduledSequence& scheduled);
    // Carries out the pending removal of a running sequence. REQUIRES: nothing of it is in flight.
    void remove(ScheduledSequence& scheduled);

  private:
    bool ranks_first(const ScheduledSequence& scheduled) const;
    bool awaits_state(const ScheduledSequence& scheduled) const;
    bool should_swap(const ScheduledSequence& scheduled) const;
    bool swap_out(ScheduledSequence& scheduled);

    SchedulingContext& context_;
    WaitingQueue& waiting_;
    RunningSet& running_;
    WorkerUpdate& update_;
    PreemptionCosts costs_;
};

}  // namespace nvllm
