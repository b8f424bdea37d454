// The time since an engine's start, which its records and outputs carry.
#pragma once

#include <chrono>

namespace nvllm {

class EngineClock {
  public:
    using Clock = std::chrono::steady_clock;

    double seconds_at(Clock::time_point time) const {
        return std::chrono::duration<double>(time - started_).count();
    }
    double now_s() const { return seconds_at(Clock::now()); }

  private:
    Clock::time_point started_ = Clock::now();
};

}  // namespace nvllm
