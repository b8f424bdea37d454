// The state of an engine as other threads read it: stats, health, and whether requests are open.
//
// The engine thread publishes stats and the number of open requests together: a thread that waited
// for an idle engine reads the stats of an idle engine.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "lib/engine/engine.h"
#include "lib/engine/loop/health.h"
#include "lib/engine/loop/watchdog.h"

namespace nvllm {

class EngineStatus {
  public:
    // Any thread, before the request's message is posted.
    void note_submitted();
    // The engine thread: the present stats, the state of the worker, and how many requests have
    // finished since the last call.
    void publish(const EngineStats& stats, EngineState state, std::optional<int> worker_pid,
                 size_t num_finished);
    void note_fault(const std::string& cause);

    // Any thread. Times since the heartbeat are 0 while no request is open.
    EngineStats stats() const;
    EngineHealth health() const;
    // Blocks until no request is open.
    void wait_idle();

    Heartbeat& heartbeat() { return heartbeat_; }
    // `executor` must outlive the watchdog, which unwatch() ends.
    void watch(StepExecutor& executor, double limit_s);
    void unwatch();

  private:
    Heartbeat heartbeat_;
    mutable std::mutex mutex_;
    std::condition_variable idle_;
    size_t num_open_ = 0;  // submitted and not finished
    EngineStats stats_;
    EngineHealth health_;
    std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace nvllm
