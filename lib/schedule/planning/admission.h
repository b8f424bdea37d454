// Admits waiting and swapped sequences into a plan under construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/schedule/planning/backpressure.h"
#include "lib/schedule/planning/plan_builder.h"
#include "lib/schedule/planning/preemptor.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/scheduling_context.h"
#include "lib/schedule/state/waiting_queue.h"
#include "lib/schedule/state/worker_update.h"

namespace nvllm {

// A sequence is admitted only if the cache has blocks for all its known tokens. No sequence passes
// one that waits for blocks: the latter would wait forever.
class Admission {
  public:
    Admission(SchedulingContext& context, WaitingQueue& waiting, RunningSet& running,
              Preemptor& preemptor, const Backpressure& backpressure, WorkerUpdate& update)
        : context_(context),
          waiting_(waiting),
          running_(running),
          update_(update),
          preemptor_(preemptor),
          backpressure_(backpressure) {}

    // In the order of the queue, while slots, tokens and blocks are left.
    void admit_waiting(PlanBuilder& builder);

  private:
    bool is_aging_due() const;
    std::optional<size_t> next_waiting(const PlanBuilder& builder, size_t from, bool oldest) const;
    bool try_admit(PlanBuilder& builder, ScheduledSequence& scheduled, int32_t headroom);
    bool admit(PlanBuilder& builder, ScheduledSequence& scheduled, int32_t headroom);
    bool swap_in(PlanBuilder& builder, ScheduledSequence& scheduled, int32_t headroom);
    bool preempt_for(PlanBuilder& builder, const ScheduledSequence& scheduled);
    void copy_checkpoint(ScheduledSequence& scheduled);
    void start_running(ScheduledSequence& scheduled, bool aged);

    SchedulingContext& context_;
    WaitingQueue& waiting_;
    RunningSet& running_;
    WorkerUpdate& update_;
    Preemptor& preemptor_;
    const Backpressure& backpressure_;
    int32_t admitted_since_aging_ = 0;
};

}  // namespace nvllm
