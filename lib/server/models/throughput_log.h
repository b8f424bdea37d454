// A periodic line in the log on the throughput of each active model.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "lib/server/models/model_set.h"

namespace nvllm::server {

// Not thread-safe.
class ThroughputLog {
  public:
    using Clock = std::chrono::steady_clock;

    // 0: no lines.
    explicit ThroughputLog(double interval_s, Clock::time_point now = Clock::now());

    // Writes the lines once the interval is over. A model that had nothing to do has none.
    void check(const ModelSet& models, Clock::time_point now);

  private:
    void say(const HostedModel& model, double seconds);

    struct Tokens {
        uint64_t prompt = 0, generated = 0;
    };

    const std::chrono::duration<double> interval_;
    Clock::time_point last_;
    std::map<std::string, Tokens> before_;  // by model
};

}  // namespace nvllm::server
