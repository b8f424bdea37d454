// Time as seconds on a clock that never goes back, replaceable in tests.
#pragma once

#include <chrono>

namespace nvllm {

class Clock {
  public:
    virtual ~Clock() = default;
    // Seconds since some fixed point. Thread-safe.
    virtual double now_s() const = 0;
};

class MonotonicClock : public Clock {
  public:
    double now_s() const override {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    }
};

// Stands still until it is moved. Not thread-safe.
class ManualClock : public Clock {
  public:
    double now_s() const override { return now_s_; }
    void advance(double seconds) { now_s_ += seconds; }

  private:
    double now_s_ = 0.0;
};

}  // namespace nvllm
