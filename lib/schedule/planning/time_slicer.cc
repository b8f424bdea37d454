// Pausing and resuming by the policy's time slices.
#include "lib/schedule/planning/time_slicer.h"

#include <vector>

#include "lib/schedule/planning/admission_rules.h"

namespace nvllm {

void TimeSlicer::pause_for_waiting() {
    if (context_.policy.pauses_for == nullptr) return;
    std::vector<ScheduledSequence*> paused;
    int32_t num_free = running_.num_free_slots();
    for (const ScheduledSequence* waiting : waiting_.all()) {
        if (!is_ready(*waiting, context_)) continue;
        if (num_free > 0) {
            --num_free;
            continue;
        }
        ScheduledSequence* last = last_to_pause_for(*waiting);
        if (last == nullptr) break;
        last->removal = PendingRemoval::pause;
        if (last->num_plans == 0) paused.push_back(last);
    }
    // The loop above iterates the queue, into which paused sequences are inserted.
    for (ScheduledSequence* sequence : paused) preemptor_.remove(*sequence);
    running_.remove_left();
}

// Of the running sequences that pause for this one, the one that ranks last.
ScheduledSequence* TimeSlicer::last_to_pause_for(const ScheduledSequence& waiting) const {
    const SchedulingPolicy& policy = context_.policy;
    const double now_s = context_.now_s;
    ScheduledSequence* last = nullptr;
    for (ScheduledSequence* candidate : running_.all()) {
        const Sequence& sequence = candidate->sequence;
        // The slot of a beam belongs to its group until the search ends.
        if (candidate->is_beam()) continue;
        if (!candidate->can_be_planned() || sequence.is_aged) continue;
        if (!policy.pauses_for(sequence, waiting.sequence, now_s)) continue;
        if (last == nullptr || ranks_before(policy, last->sequence, sequence, now_s)) {
            last = candidate;
        }
    }
    return last;
}

void TimeSlicer::resume_paused(bool before_admission) {
    if (!context_.queue_may_hold_blocks()) return;
    int32_t num_free = running_.num_free_slots();
    size_t index = 0;
    while (index < waiting_.size() && num_free > 0) {
        ScheduledSequence& scheduled = waiting_[index];
        const bool may_run =
            !scheduled.request->is_paused_for_client && context_.adapters.may_run(scheduled);
        if (scheduled.sequence.state == SequenceState::paused && may_run) {
            --num_free;
            waiting_.remove_at(index);
            scheduled.sequence.resume(context_.now_s);
            running_.add(scheduled);
        } else if (before_admission && is_ready(scheduled, context_)) {
            return;
        } else {
            ++index;
        }
    }
}

}  // namespace nvllm
