// How many tokens of a step are left, and how many of them one sequence may have.
//
// A step has at most as many tokens as its limit, the step-time target and memory allow. The first
// two are counted here. Blocks are allocated before tokens are spent: a sequence is admitted with
// blocks for all it has to compute, and one block is left for each sequence that grows (Admission).
// If blocks may not suffice for all decoding sequences, they get them in the order of the policy
// (BatchComposer).
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/schedule/scheduler_config.h"

namespace nvllm {

class TokenBudget {
  public:
    // `max_tokens`: in this step, at most the configuration's.
    TokenBudget(const SchedulerConfig& config, int32_t max_tokens)
        : left_(std::min(config.max_num_batched_tokens, max_tokens)),
          largest_step_(config.largest_step()),
          mixed_prefill_(config.enable_chunked_prefill && config.mixed_prefill_tokens > 0
                             ? std::min(config.mixed_prefill_tokens, config.max_num_batched_tokens)
                             : INT32_MAX),
          partial_left_(config.max_num_partial_prefills > 0 ? config.max_num_partial_prefills
                                                            : INT32_MAX),
          chunked_(config.enable_chunked_prefill) {}

    bool spent() const { return left_ <= 0; }
    // Whether a prompt may have any more of this step.
    bool may_prefill() const { return left_ > 0 && prefill_left() > 0; }
    // How many of a sequence's `wanted` tokens this step can have; spends nothing.
    int32_t grant(int32_t wanted) const {
        if (!chunked_) return wanted <= left_ ? wanted : 0;
        int32_t granted = std::min({wanted, left_, largest_step_});
        if (wanted > 1) granted = std::min(granted, prefill_left());
        return granted < wanted && partial_left_ == 0 ? 0 : granted;
    }
    // Tokens that a step can still have for drafts; 0: none.
    int32_t left() const { return std::max(0, left_); }
    void spend_on_drafts(int32_t count) { left_ -= count; }
    void spend(int32_t count, bool partial) { count_in(count, partial, 1); }
    void give_back(int32_t count, bool partial) { count_in(count, partial, -1); }

  private:
    void count_in(int32_t count, bool partial, int32_t sign) {
        left_ -= sign * count;
        partial_left_ -= partial ? sign : 0;
        (count == 1 && !partial ? num_decoding_ : num_prefill_tokens_) += sign * count;
    }
    // Decoding sequences were planned before, so their number is known. If there are few of them,
    // prompts fill the step to the length that it has with half as many decoding sequences as
    // prompt tokens. Inter-token latency reaches this length anyway where many prompts end, and the
    // weights are read fewer times until the last prompt has ended.
    int32_t prefill_left() const {
        if (num_decoding_ == 0 || mixed_prefill_ == INT32_MAX) return INT32_MAX;
        const int32_t for_few = mixed_prefill_ + (mixed_prefill_ / 2 - num_decoding_);
        const int32_t granted = std::max({mixed_prefill_, num_decoding_, for_few});
        return std::max(0, granted - num_prefill_tokens_);
    }

    int32_t left_;
    int32_t largest_step_;
    int32_t mixed_prefill_;
    int32_t num_decoding_ = 0;
    int32_t num_prefill_tokens_ = 0;
    int32_t partial_left_;
    bool chunked_;
};

}  // namespace nvllm
