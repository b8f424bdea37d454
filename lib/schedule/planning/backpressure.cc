// Requests of which nothing is planned until their clients have read more.
#include "lib/schedule/planning/backpressure.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace nvllm {

void Backpressure::pause(RequestId id) {
    const auto request = requests_.find_request(id);
    if (request == nullptr || request->beams != nullptr) return;
    if (!std::exchange(request->is_paused_for_client, true)) ++num_paused_;
}

void Backpressure::resume(RequestId id) {
    const auto request = requests_.find_request(id);
    if (request == nullptr) return;
    if (std::exchange(request->is_paused_for_client, false)) --num_paused_;
}

bool Backpressure::has_work() const {
    if (!running_.empty()) return true;
    if (num_paused_ == 0) return !waiting_.empty();
    return std::ranges::any_of(waiting_.all(), [](const ScheduledSequence* scheduled) {
        return !scheduled->request->is_paused_for_client;
    });
}

void Backpressure::release_slots() {
    if (num_paused_ == 0) return;
    // Does not change the set before remove_left().
    for (ScheduledSequence* scheduled : running_.all()) {
        if (!scheduled->request->is_paused_for_client || scheduled->cancelled) continue;
        if (scheduled->removal == PendingRemoval::none) scheduled->removal = PendingRemoval::pause;
        if (scheduled->num_plans == 0) preemptor_.remove(*scheduled);
    }
    running_.remove_left();
}

ScheduledSequence* Backpressure::last_with_blocks() const {
    if (num_paused_ == 0) return nullptr;
    ScheduledSequence* last = nullptr;
    for (ScheduledSequence* scheduled : waiting_.all()) {
        const bool has_blocks = scheduled->sequence.state == SequenceState::paused;
        if (has_blocks && scheduled->request->is_paused_for_client) last = scheduled;
    }
    return last;
}

}  // namespace nvllm
