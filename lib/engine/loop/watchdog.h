// Detects that an engine makes no progress, and kills the worker that causes it.
//
// The engine thread ticks; a thread of the watchdog checks 8 times in each time limit. It counts
// the time during which it was awake and nothing moved: a process that was stopped and resumed was
// not slow, and neither was an engine whose worker reads weights from the disk.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "lib/execute/step_executor.h"

namespace nvllm {

// What the engine thread does.
enum class EnginePhase : uint8_t {
    idle,       // nothing to do
    planning,   // between two steps
    computing,  // waits for the worker's step
    starting,   // waits for a worker to be ready
};

class Heartbeat {
  public:
    // The engine thread enters this phase.
    void tick(EnginePhase phase);

    // Any thread. Two pulses are equal if the engine thread did not tick in between.
    struct Pulse {
        uint64_t ticks = 0;
        EnginePhase phase = EnginePhase::idle;
        bool operator==(const Pulse&) const = default;
    };
    Pulse pulse() const;
    // 0 while it is idle.
    double seconds_since() const;

  private:
    std::atomic<uint64_t> state_ = 0;  // ticks and, in the lowest bits, the phase
    std::atomic<int64_t> at_ns_ = 0;
};

// The progress of the worker's process, which may move while the engine thread waits.
struct ProcessProgress {
    uint64_t major_faults = 0;  // pages read from disk
    uint64_t cpu_ticks = 0;
    bool operator==(const ProcessProgress&) const = default;
};
// Of a process; nothing when there is none.
std::optional<ProcessProgress> process_progress(int process_id);

// The decision, without a thread or a clock.
class StallDetector {
  public:
    explicit StallDetector(double limit_s) : limit_s_(limit_s) {}

    // The interval between two calls of update().
    double interval_s() const { return limit_s_ / 8; }
    // `elapsed_s` since the last call. True when nothing has moved for the limit, and again after
    // each further limit.
    bool update(const Heartbeat::Pulse& pulse, const std::optional<ProcessProgress>& progress,
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
    // Both outlive the watchdog. It kills a worker whose step takes longer than `limit_s`, or whose
    // start moves nothing for as long.
    Watchdog(const Heartbeat& heartbeat, StepExecutor& executor, double limit_s);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    // Whether nothing has moved for longer than the limit up to now. Any thread.
    bool stalled() const { return stalled_at_tick_ == heartbeat_.pulse().ticks; }

  private:
    static constexpr uint64_t kNever = UINT64_MAX;

    void run();
    void check(double elapsed_s);

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
