// Requests of which nothing is planned for a while, because nobody takes what they make.
#include <algorithm>

#include "lib/schedule/scheduler.h"

namespace nvllm {

void Scheduler::hold(RequestId request) {
    const auto found = requests_.find(request);
    if (found == requests_.end() || found->second->beams != nullptr) return;
    if (std::exchange(found->second->is_held, true)) return;
    held_.push_back(found->second.get());
}

void Scheduler::go_on(RequestId request) {
    const auto found = requests_.find(request);
    if (found == requests_.end() || !std::exchange(found->second->is_held, false)) return;
    std::erase(held_, found->second.get());
}

bool Scheduler::has_work() const {
    const auto is_free = [](const ScheduledSequence* scheduled) {
        return !scheduled->request->is_held;
    };
    if (!running_.empty()) return true;
    return held_.empty() ? !waiting_.empty() : std::ranges::any_of(waiting_.all(), is_free);
}

// Those in a plan as soon as it is committed.
void Scheduler::pause_held() {
    if (held_.empty()) return;
    const std::vector<ScheduledSequence*> running = running_;
    for (ScheduledSequence* scheduled : running) {
        if (!scheduled->request->is_held || scheduled->cancelled) continue;
        if (scheduled->disconnect_reason == DisconnectReason::none)
            scheduled->disconnect_reason = DisconnectReason::pause;
        if (scheduled->num_plans == 0) depart(*scheduled);
    }
    leave_running();
}

// Of those that are held and have blocks.
ScheduledSequence* Scheduler::last_held() const {
    if (held_.empty()) return nullptr;
    ScheduledSequence* last = nullptr;
    for (ScheduledSequence* scheduled : waiting_.all()) {
        const bool has_blocks = scheduled->sequence.state == SequenceState::paused;
        if (has_blocks && scheduled->request->is_held) last = scheduled;
    }
    return last;
}

}  // namespace nvllm
