// One mutex guards all of it.
#include "lib/engine/loop/engine_status.h"

#include <utility>

namespace nvllm {

void EngineStatus::note_submitted() {
    const std::lock_guard lock(mutex_);
    ++num_open_;
}

void EngineStatus::publish(const EngineStats& stats, EngineState state,
                           std::optional<int> worker_pid, size_t num_finished) {
    const std::lock_guard lock(mutex_);
    stats_ = stats;
    health_.worker_restarts = stats.faults.worker_restarts;
    health_.weight_reloads = stats.faults.weight_reloads;
    health_.worker_pid = worker_pid;
    health_.state = state;
    num_open_ -= num_finished;
    if (num_open_ == 0) idle_.notify_all();
}

void EngineStatus::note_fault(const std::string& cause) {
    const std::lock_guard lock(mutex_);
    health_.last_fault = cause;
}

EngineStats EngineStatus::stats() const {
    const std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    if (num_open_ > 0) stats.seconds_since_heartbeat = heartbeat_.seconds_since();
    return stats;
}

EngineHealth EngineStatus::health() const {
    const std::lock_guard lock(mutex_);
    EngineHealth health = health_;
    if (num_open_ > 0) health.seconds_since_heartbeat = heartbeat_.seconds_since();
    const bool stalls = watchdog_ != nullptr && watchdog_->stalled();
    if (stalls && health.state == EngineState::running) health.state = EngineState::stalled;
    return health;
}

void EngineStatus::wait_idle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return num_open_ == 0; });
}

void EngineStatus::watch(StepExecutor& executor, double limit_s) {
    auto watchdog = std::make_unique<Watchdog>(heartbeat_, executor, limit_s);
    const std::lock_guard lock(mutex_);
    watchdog_ = std::move(watchdog);
}

// The watchdog's thread ends outside the lock.
void EngineStatus::unwatch() {
    std::unique_ptr<Watchdog> watchdog;
    const std::lock_guard lock(mutex_);
    watchdog = std::move(watchdog_);
}

}  // namespace nvllm
