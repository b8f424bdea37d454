// Who gives up its blocks when they run out.
#pragma once

#include <span>

#include "lib/schedule/policy.h"
#include "lib/schedule/scheduled_sequence.h"

namespace nvllm {

// Of the running sequences that yield before `needy`, the one that yields first; null when `needy`
// itself would be the first: it keeps what it has and waits.
inline ScheduledSequence* choose_victim(std::span<ScheduledSequence* const> running,
                                        const ScheduledSequence& needy,
                                        const SchedulingPolicy& policy) {
    const ScheduledSequence* first = &needy;
    ScheduledSequence* victim = nullptr;
    for (ScheduledSequence* candidate : running) {
        if (candidate->sequence.state != SequenceState::running) continue;
        if (!policy.yields_before(candidate->sequence, first->sequence)) continue;
        first = victim = candidate;
    }
    return victim;
}

}  // namespace nvllm
