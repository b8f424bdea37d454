// How many tokens of a step are left, and how many of them one sequence may have.
//
// A step has at most as many tokens as its limit, the step-time target and memory allow, whichever
// are fewest. The first two are counted here. Memory is asked for blocks before tokens are granted:
// a newcomer comes in with blocks for all it has to compute, and leaves one for each that grows
// (admit_waiting); who decodes asks in the order of the policy as soon as there may not be enough
// for all (plan_running).
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/schedule/scheduler_config.h"

namespace nvllm {

class TokenBudget {
  public:
    // `most_tokens`: in this step, at most the configuration's.
    TokenBudget(const SchedulerConfig& config, int32_t most_tokens)
        : left_(std::min(config.max_num_batched_tokens, most_tokens)),
          largest_step_(config.largest_step()),
          partial_left_(config.max_num_partial_prefills > 0 ? config.max_num_partial_prefills
                                                            : INT32_MAX),
          chunked_(config.enable_chunked_prefill) {}

    bool spent() const { return left_ <= 0; }
    // How many of a sequence's `wanted` tokens this step can have; spends nothing.
    int32_t grant(int32_t wanted) const {
        if (!chunked_) return wanted <= left_ ? wanted : 0;
        const int32_t granted = std::min({wanted, left_, largest_step_});
        return granted < wanted && partial_left_ == 0 ? 0 : granted;
    }
    void spend(int32_t count, bool partial) {
        left_ -= count;
        partial_left_ -= partial ? 1 : 0;
    }
    void give_back(int32_t count, bool partial) {
        left_ += count;
        partial_left_ += partial ? 1 : 0;
    }

  private:
    int32_t left_;
    int32_t largest_step_;
    int32_t partial_left_;
    bool chunked_;
};

}  // namespace nvllm
