// Samples the heartbeat, decides, kills.
#include "lib/engine/loop/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

#include "kernels/host/start_thread.h"

namespace nvllm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kPhaseBits = 2;
constexpr uint64_t kPhaseMask = (1U << kPhaseBits) - 1;

int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
        .count();
}

}  // namespace

void Heartbeat::tick(EnginePhase phase) {
    at_ns_.store(now_ns(), std::memory_order_relaxed);
    const uint64_t ticks = (state_.load(std::memory_order_relaxed) >> kPhaseBits) + 1;
    state_.store(ticks << kPhaseBits | static_cast<uint64_t>(phase), std::memory_order_release);
}

Heartbeat::Pulse Heartbeat::pulse() const {
    const uint64_t state = state_.load(std::memory_order_acquire);
    return {state >> kPhaseBits, static_cast<EnginePhase>(state & kPhaseMask)};
}

double Heartbeat::seconds_since() const {
    if (pulse().phase == EnginePhase::idle) return 0.0;
    const int64_t passed_ns = now_ns() - at_ns_.load(std::memory_order_relaxed);
    return std::max(0.0, static_cast<double>(passed_ns) * 1e-9);
}

// The fields after the name, which is in parentheses and may hold anything.
std::optional<ProcessProgress> process_progress(int process_id) {
    std::ifstream file(fmt::format("/proc/{}/stat", process_id));
    std::string line;
    if (!std::getline(file, line)) return std::nullopt;
    std::istringstream rest(line.substr(std::min(line.rfind(')') + 1, line.size())));
    std::string skipped;
    for (int field = 3; field < 12; ++field) rest >> skipped;
    ProcessProgress progress;
    uint64_t user = 0;
    uint64_t system = 0;
    if (!(rest >> progress.major_faults >> skipped >> user >> system)) return std::nullopt;
    progress.cpu_ticks = user + system;
    return progress;
}

bool StallDetector::has_moved(const Heartbeat::Pulse& pulse,
                              const std::optional<ProcessProgress>& progress) {
    if (pulse.phase == EnginePhase::idle || pulse != pulse_) return true;
    if (!progress || !progress_) return false;
    if (progress->major_faults != progress_->major_faults) return true;
    // A start may compute for long; only a step that burns time is a stall.
    return pulse.phase == EnginePhase::starting && progress->cpu_ticks != progress_->cpu_ticks;
}

bool StallDetector::update(const Heartbeat::Pulse& pulse,
                           const std::optional<ProcessProgress>& progress, double elapsed_s) {
    const bool moved = has_moved(pulse, progress);
    pulse_ = pulse;
    progress_ = progress;
    if (moved) {
        age_s_ = 0.0;
        stalled_ = false;
        return false;
    }
    // The watchdog was not awake: a process that was stopped is not slow.
    age_s_ += std::min(elapsed_s, 2 * interval_s());
    if (age_s_ < limit_s_) return false;
    age_s_ = 0.0;
    stalled_ = true;
    return true;
}

Watchdog::Watchdog(const Heartbeat& heartbeat, StepExecutor& executor, double limit_s)
    : heartbeat_(heartbeat),
      executor_(executor),
      limit_s_(limit_s),
      detector_(limit_s),
      thread_(start_thread([this] { run(); })) {}

Watchdog::~Watchdog() {
    {
        const std::lock_guard lock(mutex_);
        shutdown_ = true;
    }
    ended_.notify_all();
    thread_.join();
}

void Watchdog::run() {
    const std::chrono::duration<double> interval(detector_.interval_s());
    Clock::time_point last = Clock::now();
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, interval, [&] { return shutdown_; })) {
        const Clock::time_point now = Clock::now();
        check(std::chrono::duration<double>(now - last).count());
        last = now;
    }
}

void Watchdog::check(double elapsed_s) {
    const Heartbeat::Pulse pulse = heartbeat_.pulse();
    std::optional<ProcessProgress> progress;
    if (pulse.phase != EnginePhase::idle) {
        progress = process_progress(executor_.process_id().value_or(::getpid()));
    }
    const bool overdue = detector_.update(pulse, progress, elapsed_s);
    stalled_at_tick_ = detector_.stalled() ? pulse.ticks : kNever;
    const bool waits_for_worker =
        pulse.phase == EnginePhase::computing || pulse.phase == EnginePhase::starting;
    if (!overdue || !waits_for_worker) return;
    executor_.kill(
        fmt::format("no answer within {:g} s (--watchdog-timeout), so it was killed", limit_s_));
}

}  // namespace nvllm
