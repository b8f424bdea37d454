// How many tokens of a step are left, and how many of them one sequence may have.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/schedule/scheduler_config.h"

namespace nvllm {

class TokenBudget {
  public:
    explicit TokenBudget(const SchedulerConfig& config)
        : left_(config.max_num_batched_tokens),
          largest_step_(config.largest_step()),
          chunked_(config.enable_chunked_prefill) {}

    bool spent() const { return left_ == 0; }
    // How many of a sequence's `wanted` tokens this step can have; spends nothing.
    int32_t grant(int32_t wanted) const {
        if (!chunked_) return wanted <= left_ ? wanted : 0;
        return std::min({wanted, left_, largest_step_});
    }
    void spend(int32_t count) { left_ -= count; }
    void give_back(int32_t count) { left_ += count; }

  private:
    int32_t left_;
    int32_t largest_step_;
    bool chunked_;
};

}  // namespace nvllm
