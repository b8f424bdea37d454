// Notices that an engine does not get on, and ends a worker that is to blame.
//
// The engine thread beats; a thread of the watchdog looks a few times in each time limit. What
// counts is the time during which the watchdog was awake and saw nothing move: a process that was
// stopped and goes on has not been slow. Nor has one whose worker reads weights from the disk.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "lib/execute/step_executor.h"

namespace nvllm {

// What the engine thread is at.
enum class EnginePhase : uint8_t {
    idle,       // nothing to do
    planning,   // between two steps
    computing,  // waits for the worker's step
    starting,   // waits for a worker to be ready
};

class Heartbeat {
  public:
    // The engine thread comes to this phase.
    void tick(EnginePhase phase);

    // Any thread. Two pulses are equal when nothing happened in between.
    struct Pulse {
        uint64_t beats = 0;
        EnginePhase phase = EnginePhase::idle;
        bool operator==(const Pulse&) const = default;
    };
    Pulse pulse() const;
    // 0 while it is idle.
    double seconds_since() const;

  private:
    std::atomic<uint64_t> state_ = 0;  // beats and, in the lowest bits, the phase
    std::atomic<int64_t> at_ns_ = 0;
};

// What may move though the engine thread does not: how much of its work the worker's process has
// got done.
struct ProcessProgress {
    uint64_t major_faults = 0;  // pages read from disk
    uint64_t cpu_ticks = 0;
    bool operator==(const ProcessProgress&) const = default;
};
// Of a process; nothing when there is none.
std::optional<ProcessProgress> process_progress(int process_id);

// The reckoning, without a thread or a clock.
class StallDetector {
  public:
    explicit StallDetector(double limit_s) : limit_s_(limit_s) {}

    // So often it wants to be asked.
    double interval_s() const { return limit_s_ / 8; }
    // `elapsed_s` since the last look. True when nothing has moved for too long by now; and again
    // when it has not for as long again.
    bool look(const Heartbeat::Pulse& pulse, const std::optional<ProcessProgress>& progress,
              double elapsed_s);
    bool stalled() const { return stalled_; }

  private:
    bool has_moved(const Heartbeat::Pulse& pulse, const std::optional<ProcessProgress>& progress);

    double limit_s_;
    double age_s_ = 0.0;
    bool stalled_ = false;
    Heartbeat::Pulse pulse_;
    std::optional<ProcessProgress> progress_;
};

class Watchdog {
  public:
    // Both outlive it. A worker is killed when its step takes longer than `limit_s`, or its start
    // moves nothing for as long.
    Watchdog(const Heartbeat& heartbeat, StepExecutor& executor, double limit_s);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    // Nothing has moved for longer than the limit, and still does not. Any thread.
    bool stalled() const { return stalled_at_tick_ == heartbeat_.pulse().beats; }

  private:
    static constexpr uint64_t kNever = UINT64_MAX;

    void run();
    void look(double elapsed_s);

    const Heartbeat& heartbeat_;
    StepExecutor& executor_;
    double limit_s_;
    StallDetector detector_;
    std::atomic<uint64_t> stalled_at_tick_ = kNever;
    std::mutex mutex_;
    std::condition_variable ended_;
    bool shutdown_ = false;
    std::thread thread_;
};

}  // namespace nvllm
