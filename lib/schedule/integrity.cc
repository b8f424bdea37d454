// The invariants of queues, plans, states and blocks; for tests.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "kernels/error.h"
#include "lib/schedule/scheduler.h"

namespace nvllm {
namespace {

void check_queue(const WaitingQueue& waiting, const SchedulingContext& context) {
    for (size_t i = 0; i < waiting.size(); ++i) {
        const ScheduledSequence& scheduled = waiting[i];
        const SequenceState state = scheduled.sequence.state;
        NVLLM_CHECK(state != SequenceState::running && state != SequenceState::finished,
                    "only sequences without a slot wait");
        NVLLM_CHECK(i == 0 || context.policy.changes_while_waiting ||
                        waiting.precedes(waiting[i - 1], scheduled, context.now_s),
                    "the queue is out of order");
    }
}

// Beam groups with slots, each once.
int32_t num_slots_of_beams(const RequestTable& requests) {
    int32_t count = 0;
    for (const auto& [id, scheduled] : requests.sequences()) {
        const ScheduledRequest& request = *scheduled->request;
        if (id != request.first || request.num_active == 0) continue;
        if (request.beams == nullptr || !request.beams->has_slots) continue;
        count += request.request.sampling.num_sequences();
    }
    return count;
}

}  // namespace

void Scheduler::check_integrity() const {
    std::vector<const SequenceBlocks*> caches;
    for (const auto& [id, scheduled] : requests_.sequences()) caches.push_back(&scheduled->cache);
    context_.cache.check_integrity(caches);
    check_counts();
    for (const ScheduledSequence* scheduled : running_.all()) {
        NVLLM_CHECK(scheduled->sequence.state == SequenceState::running,
                    "a sequence in the running set does not run");
    }
    check_queue(waiting_, context_);
    NVLLM_CHECK(running_.num_reserved_slots() == num_slots_of_beams(requests_),
                "slots are reserved for other than active beam groups");
}

// The plans in flight agree with the counts of the sequences.
void Scheduler::check_counts() const {
    std::unordered_map<const ScheduledSequence*, std::pair<int32_t, int32_t>> in_plans;
    for (const PlanInFlight& plan : plans_.all()) {
        for (const PlannedEntry& entry : plan.entries) {
            in_plans[entry.sequence].first += entry.count;
            ++in_plans[entry.sequence].second;
        }
    }
    const std::vector<ScheduledSequence*>& all_leased = remote_.leased();
    for (const auto& [id, scheduled] : requests_.sequences()) {
        const Sequence& sequence = scheduled->sequence;
        const auto [tokens, plans] = in_plans[scheduled.get()];
        NVLLM_CHECK(plans == scheduled->num_plans, "a sequence's count of plans is wrong");
        NVLLM_CHECK(sequence.num_in_flight == tokens || sequence.state == SequenceState::finished,
                    "a sequence's count of tokens in flight is wrong");
        NVLLM_CHECK(sequence.num_unplanned() >= 0, "more is planned than is known");
        NVLLM_CHECK(sequence.num_placeholders == 0 || plans > 0,
                    "a placeholder is not chosen by any plan");
        const bool awaits = sequence.state == SequenceState::awaiting_blocks;
        const bool holds = awaits || sequence.state == SequenceState::running ||
                           sequence.state == SequenceState::paused;
        NVLLM_CHECK(scheduled->cache.empty() != holds,
                    "a sequence has blocks if and only if it runs, is paused or awaits KV");
        const bool leased = std::ranges::find(all_leased, scheduled.get()) != all_leased.end();
        NVLLM_CHECK(awaits == leased && awaits == scheduled->lease_end_s.has_value(),
                    "a sequence has a lease if and only if it awaits remote blocks");
        NVLLM_CHECK(scheduled->cache.swapped_out() == (sequence.state == SequenceState::swapped),
                    "a sequence is in host memory if and only if it is swapped out");
    }
}

}  // namespace nvllm
