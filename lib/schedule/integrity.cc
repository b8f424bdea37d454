// What must hold between queues, plans, states and blocks; for tests.
#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "lib/schedule/scheduler.h"

namespace nvllm {

void Scheduler::check_integrity() const {
    std::vector<const SequenceBlocks*> caches;
    for (const auto& [id, scheduled] : sequences_) caches.push_back(&scheduled->cache);
    cache_.check_integrity(caches);
    check_counts();
    for (const ScheduledSequence* scheduled : running_) {
        NVLLM_CHECK(scheduled->sequence.state == SequenceState::running, "only the running run");
    }
    for (size_t place = 0; place < waiting_.size(); ++place) {
        const ScheduledSequence& scheduled = waiting_[place];
        const SequenceState state = scheduled.sequence.state;
        NVLLM_CHECK(state != SequenceState::running && state != SequenceState::finished,
                    "only those without a slot wait");
        NVLLM_CHECK(place == 0 || policy_.changes_while_waiting ||
                        waiting_.stands_before(waiting_[place - 1], scheduled, now_s_),
                    "the queue is out of order");
    }
}

// What plans say is in flight is what the sequences say.
void Scheduler::check_counts() const {
    std::unordered_map<const ScheduledSequence*, std::pair<int32_t, int32_t>> in_plans;
    for (const InFlight& plan : in_flight_) {
        for (const PlannedEntry& entry : plan.entries) {
            in_plans[entry.sequence].first += entry.count;
            ++in_plans[entry.sequence].second;
        }
    }
    for (const auto& [id, scheduled] : sequences_) {
        const Sequence& sequence = scheduled->sequence;
        const auto [tokens, plans] = in_plans[scheduled.get()];
        NVLLM_CHECK(plans == scheduled->num_plans, "a sequence's count of plans is wrong");
        NVLLM_CHECK(sequence.num_in_flight == tokens || sequence.state == SequenceState::finished,
                    "a sequence's count of tokens in flight is wrong");
        NVLLM_CHECK(sequence.num_unplanned() >= 0, "more is planned than is known");
        const bool awaits = sequence.state == SequenceState::awaiting_blocks;
        const bool holds = awaits || sequence.state == SequenceState::running ||
                           sequence.state == SequenceState::paused;
        NVLLM_CHECK(
            scheduled->cache.empty() != holds,
            "a sequence holds blocks just while it runs, pauses or waits for their content");
        const bool leased = std::ranges::find(leased_, scheduled.get()) != leased_.end();
        NVLLM_CHECK(awaits == leased && awaits == scheduled->lease_end_s.has_value(),
                    "a sequence has a lease just while it waits for remote blocks");
        NVLLM_CHECK(scheduled->cache.swapped_out() == (sequence.state == SequenceState::swapped),
                    "a sequence is in host memory just while it is swapped out");
    }
}

}  // namespace nvllm
