// Keeps a worker running: starts it, restarts it after its death, and fails when 3 starts have
// failed.
//
// Only start_first() waits for a worker. The engine thread owns the object and calls attend() when
// the executor has news.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "lib/execute/step_executor.h"

namespace nvllm {

// After so many failed starts in a row, or within the time, the engine is dead.
inline constexpr int kMaxFailedStarts = 3;
inline constexpr std::chrono::seconds kFailedStartsWithin{60};

class Recovery {
  public:
    using Clock = std::chrono::steady_clock;

    // `executor` outlives the object.
    explicit Recovery(StepExecutor& executor) : executor_(executor) {}

    // The worker can be given plans.
    bool ready() const { return state_ == State::ready; }
    bool failed() const { return state_ == State::failed; }

    // The first start: blocks until the worker is ready, in pieces that `goes_on` may end. Nothing
    // if it did. Throws the error of the start.
    template <typename Wait>
    std::optional<WorkerReady> start_first(const Wait& goes_on);

    // The worker died: starts another one, at once, or later if workers die before they finish a
    // step.
    void replace(Clock::time_point now);
    // To be called when the executor has news, or when wake_after() has passed. True if a worker
    // became ready.
    bool attend(Clock::time_point now);
    // When attend() has something to do without news; empty: never.
    std::optional<std::chrono::milliseconds> wake_after(Clock::time_point now) const;
    // The worker finished a step.
    void note_step() { num_useless_ = 0; }

    // How many starts have failed so far, and why the latest one did.
    int64_t num_failed_starts() const { return num_failed_starts_; }
    const std::string& start_fault() const { return start_fault_; }

  private:
    enum class State { ready, pausing, starting, failed };

    void start(Clock::time_point now);
    void note_failed_start(const std::string& cause, Clock::time_point now);

    StepExecutor& executor_;
    State state_ = State::starting;
    Clock::time_point pause_ends_;
    std::deque<Clock::time_point> failed_starts_;  // within kFailedStartsWithin
    int num_failed_in_a_row_ = 0;
    int64_t num_failed_starts_ = 0;
    int num_useless_ = 0;  // workers in a row that were lost before they finished a step
    std::string start_fault_;
};

template <typename Wait>
std::optional<WorkerReady> Recovery::start_first(const Wait& goes_on) {
    executor_.start();
    for (;;) {
        if (std::optional<WorkerReady> ready = executor_.ready(false)) {
            state_ = State::ready;
            return ready;
        }
        if (!goes_on()) return std::nullopt;
    }
}

}  // namespace nvllm
