// The state of one sequence that its sampling depends on, in addition to the logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/decode/token_counts.h"
#include "lib/request/sampling_params.h"

namespace nvllm {

// Created when a sequence is added to a worker, and again after a preemption from the tokens that
// the sequence has by then: both states choose the same tokens. Owned by one thread at a time.
class SequenceSamplingState {
  public:
    // `token_ids`: the prompt and the tokens generated before; `continuation_index`: the index of
    // the sequence in its request. REQUIRES: params.seed is set; num_prompt_tokens <=
    // token_ids.size().
    SequenceSamplingState(const SamplingParams& params, std::span<const int32_t> token_ids,
                          int32_t num_prompt_tokens, std::span<const int32_t> eos_token_ids,
                          int32_t continuation_index);

    // Appends a token to the sequence.
    void accept(int32_t token_id);

    const SamplingParams& params() const { return params_; }
    uint64_t seed() const { return *params_.seed; }
    int32_t continuation_index() const { return continuation_index_; }
    int32_t num_generated() const { return num_generated_; }
    int32_t num_prompt_tokens() const { return num_prompt_tokens_; }
    // Empty unless a penalty is on.
    const TokenCounts& counts() const { return counts_; }
    // params().allowed_token_ids, ascending.
    const std::vector<int32_t>& allowed_token_ids() const { return allowed_token_ids_; }
    // The last tokens of the sequence: as many as the longest of bad_words needs, or all of them
    // with no_repeat_ngram_size.
    std::span<const int32_t> recent_tokens() const { return recent_tokens_; }
    // The ids that end the sequence (lib/request/end_tokens.h).
    std::span<const int32_t> end_token_ids() const { return end_token_ids_; }

  private:
    SamplingParams params_;
    int32_t continuation_index_;
    int32_t num_prompt_tokens_;
    int32_t num_generated_;
    bool counts_tokens_;
    TokenCounts counts_;
    std::vector<int32_t> end_token_ids_;
    std::vector<int32_t> allowed_token_ids_;
    size_t num_recent_tokens_ = 0;  // stored at most
    std::vector<int32_t> recent_tokens_;
};

}  // namespace nvllm
