// The sequences without a slot, in the order of their admission.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/schedule/policy.h"
#include "lib/schedule/state/scheduled_sequence.h"

namespace nvllm {

// Waiting, paused and swapped sequences in the policy's order: a preempted sequence gets the
// position that it would have had without its admission; under "fcfs" it is before all later ones.
// Swapped sequences, and beams that other beams wait for, are before all others.
class WaitingQueue {
  public:
    explicit WaitingQueue(const SchedulingPolicy& policy) : policy_(policy) {}

    // Updates the order for a policy whose ranks change while a sequence waits.
    void sort(double now_s);

    bool empty() const { return sequences_.empty(); }
    size_t size() const { return sequences_.size(); }
    ScheduledSequence& operator[](size_t index) const { return *sequences_[index]; }
    std::span<ScheduledSequence* const> all() const { return sequences_; }
    // Whether `one` is admitted before `other`.
    bool precedes(const ScheduledSequence& one, const ScheduledSequence& other, double now_s) const;
    void add(ScheduledSequence& sequence, double now_s);
    // Does nothing if the sequence is not in the queue.
    void remove(const ScheduledSequence& sequence);
    // REQUIRES: index < size().
    void remove_at(size_t index) {
        sequences_.erase(sequences_.begin() + static_cast<long>(index));
    }
    // Numbers for Sequence::turn, ascending.
    uint64_t next_turn() { return next_turn_++; }

  private:
    const SchedulingPolicy& policy_;
    std::vector<ScheduledSequence*> sequences_;
    uint64_t next_turn_ = 1;
};

}  // namespace nvllm
