// The order of the waiting queue.
#include "lib/schedule/state/waiting_queue.h"

#include <algorithm>
#include <tuple>

namespace nvllm {
namespace {

// A swapped sequence, or a beam that others wait for.
bool comes_first(const ScheduledSequence& scheduled) {
    const BeamGroup* beams = scheduled.request->beams.get();
    return scheduled.sequence.state == SequenceState::swapped ||
           (beams != nullptr && beams->beams.size() > 1);
}

}  // namespace

bool WaitingQueue::precedes(const ScheduledSequence& one, const ScheduledSequence& other,
                            double now_s) const {
    if (comes_first(one) != comes_first(other)) return comes_first(one);
    return ranks_before(policy_, one.sequence, other.sequence, now_s);
}

// Computes each rank once. From one step to the next hardly any position changes.
void WaitingQueue::sort(double now_s) {
    if (!policy_.changes_while_waiting) return;
    struct Ranked {
        bool comes_later;  // see precedes()
        bool is_not_aged;
        double rank;
        ScheduledSequence* sequence;
    };
    const auto before = [](const Ranked& one, const Ranked& other) {
        const double rank = one.is_not_aged ? one.rank : 0.0;
        const double other_rank = other.is_not_aged ? other.rank : 0.0;
        return std::tuple(one.comes_later, one.is_not_aged, rank, one.sequence->sequence.id) <
               std::tuple(other.comes_later, other.is_not_aged, other_rank,
                          other.sequence->sequence.id);
    };
    std::vector<Ranked> ranked;
    ranked.reserve(sequences_.size());
    for (ScheduledSequence* sequence : sequences_) {
        ranked.push_back({!comes_first(*sequence), !sequence->sequence.is_aged,
                          policy_.rank(sequence->sequence, now_s), sequence});
    }
    if (std::ranges::is_sorted(ranked, before)) return;
    std::ranges::sort(ranked, before);
    for (size_t i = 0; i < ranked.size(); ++i) sequences_[i] = ranked[i].sequence;
}

void WaitingQueue::add(ScheduledSequence& sequence, double now_s) {
    const auto before = [&](const ScheduledSequence* one, const ScheduledSequence* other) {
        return precedes(*one, *other, now_s);
    };
    const auto position = std::upper_bound(sequences_.begin(), sequences_.end(), &sequence, before);
    sequences_.insert(position, &sequence);
}

void WaitingQueue::remove(const ScheduledSequence& sequence) {
    const auto found = std::find(sequences_.begin(), sequences_.end(), &sequence);
    if (found != sequences_.end()) sequences_.erase(found);
}

}  // namespace nvllm
