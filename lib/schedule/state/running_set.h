// The sequences with a slot, and how many slots are free.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/schedule/state/scheduled_sequence.h"

namespace nvllm {

class RunningSet {
  public:
    explicit RunningSet(int32_t num_slots) : num_slots_(num_slots) {}

    bool empty() const { return sequences_.empty(); }
    int32_t size() const { return static_cast<int32_t>(sequences_.size()); }
    // In the order of admission.
    const std::vector<ScheduledSequence*>& all() const { return sequences_; }
    void add(ScheduledSequence& sequence) { sequences_.push_back(&sequence); }

    // The state of a sequence in the set is no longer `running`: it stays in all(), which a caller
    // may iterate, until remove_left().
    void mark_left() { any_left_ = true; }
    void remove_left() {
        if (!any_left_) return;
        any_left_ = false;
        std::erase_if(sequences_, [](const ScheduledSequence* sequence) {
            return sequence->sequence.state != SequenceState::running;
        });
    }

    // Beam groups hold slots for all their beams, also for those that do not run.
    void reserve_slots(int32_t count) { num_reserved_ += count; }
    void release_slots(int32_t count) { num_reserved_ -= count; }
    int32_t num_reserved_slots() const { return num_reserved_; }
    int32_t num_free_slots() const {
        int32_t taken = num_reserved_;
        for (const ScheduledSequence* sequence : sequences_) taken += !sequence->is_beam();
        return num_slots_ - taken;
    }

  private:
    int32_t num_slots_;
    int32_t num_reserved_ = 0;  // by beam groups
    bool any_left_ = false;
    std::vector<ScheduledSequence*> sequences_;
};

}  // namespace nvllm
