// Who gives up its blocks when they run out.
#pragma once

#include <span>

#include "lib/schedule/policy.h"
#include "lib/schedule/scheduled_sequence.h"

namespace nvllm {

// Paused sequences yield to everybody, the last of them first; then those running sequences that
// rank after `needy`, the last first. Null when `needy` itself would be the first to yield: it
// keeps what it has and waits.
inline ScheduledSequence* choose_victim(std::span<ScheduledSequence* const> running,
                                        std::span<ScheduledSequence* const> waiting,
                                        const ScheduledSequence& needy,
                                        const SchedulingPolicy& policy, double now_s) {
    const auto last_of = [&](std::span<ScheduledSequence* const> candidates, SequenceState state,
                             const ScheduledSequence* before) {
        ScheduledSequence* last = nullptr;
        for (ScheduledSequence* candidate : candidates) {
            if (candidate->sequence.state != state) continue;
            const ScheduledSequence* best = last != nullptr ? last : before;
            if (best != nullptr &&
                !ranks_before(policy, best->sequence, candidate->sequence, now_s)) {
                continue;
            }
            last = candidate;
        }
        return last;
    };
    if (ScheduledSequence* victim = last_of(waiting, SequenceState::paused, nullptr)) return victim;
    return last_of(running, SequenceState::running, &needy);
}

}  // namespace nvllm
