// How far the shutdown of a server has come: draining while responses are finished, or aborted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace nvllm::server {

class ShutdownState {
  public:
    using Clock = std::chrono::steady_clock;

    // From any thread: no request is admitted from here on. False when the end has begun already.
    bool begin() { return !has_begun_.exchange(true); }
    // From any thread: nothing is waited for.
    void abort() {
        has_begun_ = true;
        is_aborted_ = true;
    }
    // From any thread.
    bool has_begun() const { return has_begun_; }
    bool is_aborted() const { return is_aborted_; }

    // On the I/O thread, as has_drained(): responses may be finished until then.
    void wait_until(Clock::time_point deadline) { deadline_ = deadline; }
    // Whether nothing is left to wait for: no response is in flight, or the deadline has passed.
    // Not before wait_until().
    bool has_drained(int64_t num_responses, Clock::time_point now) const {
        return deadline_ && (num_responses == 0 || now >= *deadline_);
    }

  private:
    std::atomic<bool> has_begun_ = false;
    std::atomic<bool> is_aborted_ = false;
    std::optional<Clock::time_point> deadline_;
};

}  // namespace nvllm::server
