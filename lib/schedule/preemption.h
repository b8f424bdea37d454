// Who gives up its blocks when they run out, and whether what it computed is kept in host memory or
// computed again.
#pragma once

#include <cstdint>
#include <span>

#include "lib/schedule/policy.h"
#include "lib/schedule/preemption_mode.h"
#include "lib/schedule/scheduled_sequence.h"
#include "lib/schedule/step_time.h"

namespace nvllm {

// What the two ways cost on this machine: guesses at first, then as measured.
class PreemptionCosts {
  public:
    void observe(const StepObservation& step) {
        if (step.swapped_bytes > 0 && step.swap_ms > 0.0) {
            approach(bytes_per_ms_, static_cast<double>(step.swapped_bytes) / step.swap_ms);
        }
        // A step that is prefill for the most part tells what a token of it takes.
        if (2 * step.num_prefill_tokens > step.num_tokens) {
            approach(prefill_ms_per_token_, step.step_ms / step.num_tokens);
        }
    }
    // Out and in again, against computing the tokens once more.
    bool swap_is_faster(uint64_t bytes, int32_t num_tokens) const {
        return 2.0 * static_cast<double>(bytes) / bytes_per_ms_ <
               prefill_ms_per_token_ * num_tokens;
    }

  private:
    static void approach(double& value, double measured) { value += 0.25 * (measured - value); }

    double bytes_per_ms_ = 2e6;  // 2 GB/s
    double prefill_ms_per_token_ = 1.0;
};

// Paused sequences yield to everybody, the last of them first; then those running sequences that
// rank after `needy`, the last first; all of them when `needy` is null. Null when `needy` itself
// would be the first to yield: it keeps what it has and waits.
inline ScheduledSequence* choose_victim(std::span<ScheduledSequence* const> running,
                                        std::span<ScheduledSequence* const> waiting,
                                        const ScheduledSequence* requester,
                                        const SchedulingPolicy& policy, double now_s) {
    const auto last_of = [&](std::span<ScheduledSequence* const> candidates, SequenceState state,
                             const ScheduledSequence* before) {
        ScheduledSequence* last = nullptr;
        for (ScheduledSequence* candidate : candidates) {
            if (candidate->sequence.state != state) continue;
            // Beams of one group need each other.
            const bool sibling = requester != nullptr && candidate->request == requester->request &&
                                 requester->request->beams != nullptr;
            if (sibling) continue;
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
    return last_of(running, SequenceState::running, requester);
}

}  // namespace nvllm
