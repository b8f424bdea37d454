// Passes slots between sequences under policies with time slices.
#pragma once

#include "lib/schedule/planning/preemptor.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/scheduling_context.h"
#include "lib/schedule/state/waiting_queue.h"

namespace nvllm {

class TimeSlicer {
  public:
    TimeSlicer(SchedulingContext& context, WaitingQueue& waiting, RunningSet& running,
               Preemptor& preemptor)
        : context_(context), waiting_(waiting), running_(running), preemptor_(preemptor) {}

    // Pauses running sequences for waiting ones, where the policy says so. A sequence in a plan
    // pauses at its commit.
    void pause_for_waiting();
    // Paused sequences run again in free slots. With `before_admission` only those that precede all
    // sequences that are ready for admission.
    void resume_paused(bool before_admission);

  private:
    ScheduledSequence* last_to_pause_for(const ScheduledSequence& waiting) const;

    SchedulingContext& context_;
    WaitingQueue& waiting_;
    RunningSet& running_;
    Preemptor& preemptor_;
};

}  // namespace nvllm
