// Preemption and pausing.
#include "lib/schedule/planning/preemptor.h"

#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "lib/schedule/planning/admission_rules.h"

namespace nvllm {

ScheduledSequence* choose_victim(std::span<ScheduledSequence* const> running,
                                 std::span<ScheduledSequence* const> waiting,
                                 const ScheduledSequence* requester, const SchedulingPolicy& policy,
                                 double now_s) {
    const auto last_of = [&](std::span<ScheduledSequence* const> candidates, SequenceState state,
                             const ScheduledSequence* before) {
        ScheduledSequence* last = nullptr;
        for (ScheduledSequence* candidate : candidates) {
            if (candidate->sequence.state != state) continue;
            // Beams of one group need each other.
            const bool same_group = requester != nullptr && requester->is_beam() &&
                                    candidate->request == requester->request;
            if (same_group) continue;
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

bool Preemptor::reclaim_for(PlanBuilder& builder, const ScheduledSequence& requester) {
    builder.short_of_blocks = true;
    // Blocks will be free with the next commit.
    if (context_.cache.parts().deferred.has_blocks()) return false;
    ScheduledSequence* victim =
        choose_victim(running_.all(), waiting_.all(), &requester, context_.policy, context_.now_s);
    if (victim == nullptr) return false;
    if (victim->num_plans > 0) {
        victim->removal = PendingRemoval::preemption;
        return false;
    }
    builder.drop_entry(*victim);
    preempt(*victim);
    return true;
}

void Preemptor::reclaim_any() {
    ScheduledSequence* victim =
        choose_victim(running_.all(), waiting_.all(), nullptr, context_.policy, context_.now_s);
    NVLLM_CHECK(victim != nullptr, "only running and paused sequences use blocks");
    preempt(*victim);
    running_.remove_left();
}

bool Preemptor::ranks_first(const ScheduledSequence& scheduled) const {
    return std::ranges::none_of(running_.all(), [&](const ScheduledSequence* other) {
        return other->sequence.state == SequenceState::running &&
               ranks_before(context_.policy, other->sequence, scheduled.sequence, context_.now_s);
    });
}

void Preemptor::remove(ScheduledSequence& scheduled) {
    switch (std::exchange(scheduled.removal, PendingRemoval::none)) {
        case PendingRemoval::none:
            return;
        case PendingRemoval::preemption:
            // The sequences that ranked before it may have finished.
            if (!ranks_first(scheduled)) preempt(scheduled);
            return;
        case PendingRemoval::pause:
            pause(scheduled);
            return;
    }
}

void Preemptor::preempt(ScheduledSequence& scheduled) {
    const bool queued = scheduled.sequence.state == SequenceState::paused;
    if (queued) waiting_.remove(scheduled);
    running_.mark_left();
    scheduled.removal = PendingRemoval::none;
    if (!should_swap(scheduled) || !swap_out(scheduled)) recompute(scheduled);
    update_.remove(scheduled);
    scheduled.unsent_tokens.clear();
    waiting_.add(scheduled, context_.now_s);
    ++context_.counters.preemptions;
}

// Whether its state is still to be copied to its slot: blocks are swapped out before copies are
// made.
bool Preemptor::awaits_state(const ScheduledSequence& scheduled) const {
    return std::ranges::any_of(update_.copies, [&](const BlockMove& copy) {
        const BlockTable& table = scheduled.cache.table(copy.group);
        return context_.cache.shape().is_state(copy.group) && table.size() > 0 &&
               table[0] == copy.to;
    });
}

bool Preemptor::should_swap(const ScheduledSequence& scheduled) const {
    // Shared blocks would come back as copies.
    if (scheduled.is_beam()) return false;
    if (awaits_state(scheduled)) return false;
    // The worker forgets the hidden states that it gathered.
    if (reads_early_positions(scheduled)) return false;
    const SchedulerConfig& config = context_.config;
    if (config.preemption_mode != PreemptionMode::automatic) {
        return config.preemption_mode == PreemptionMode::swap;
    }
    uint64_t bytes = 0;
    for (int32_t group = 0; group < context_.cache.num_groups(); ++group) {
        const auto index = static_cast<size_t>(group);
        const uint64_t each = index < config.block_bytes.size() ? config.block_bytes[index] : 0;
        bytes += each * static_cast<uint64_t>(scheduled.cache.table(group).num_held());
    }
    return costs_.swap_is_faster(bytes, scheduled.sequence.num_computed);
}

// False if host memory has no free blocks, or nothing is computed yet.
bool Preemptor::swap_out(ScheduledSequence& scheduled) {
    const int32_t num_computed = scheduled.sequence.num_computed;
    if (num_computed == 0) return false;
    if (!context_.cache.swap_out(scheduled.cache, num_computed, update_.swaps_out)) return false;
    scheduled.sequence.swap_out(context_.now_s);
    ++context_.counters.swaps_out;
    return true;
}

void Preemptor::recompute(ScheduledSequence& scheduled) {
    scheduled.num_computed_before = scheduled.sequence.num_computed;
    scheduled.sequence.preempt(context_.now_s);
    release_to_wait(scheduled, context_.cache);
}

void Preemptor::pause(ScheduledSequence& scheduled) {
    running_.mark_left();
    scheduled.sequence.pause(context_.now_s);
    scheduled.sequence.turn = waiting_.next_turn();
    waiting_.add(scheduled, context_.now_s);
    ++context_.counters.pauses;
}

}  // namespace nvllm
