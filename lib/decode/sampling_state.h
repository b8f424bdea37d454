// What the sampler must know of one sequence besides its logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/decode/token_counts.h"
#include "lib/request/sampling_params.h"

namespace nvllm {

// Made when a worker learns of a sequence, and again after a preemption from the tokens it has by
// then: the two states choose the same tokens. Owned by one thread at a time.
class SequenceSamplingState {
  public:
    // `token_ids`: the prompt and what was generated before; `continuation_index`: which of the
    // request's n continuations. REQUIRES: params.seed is set; num_prompt_tokens <=
    // token_ids.size().
    SequenceSamplingState(const SamplingParams& params, std::span<const int32_t> token_ids,
                          int32_t num_prompt_tokens, std::span<const int32_t> eos_token_ids,
                          int32_t continuation_index);

    // Takes notice of a token that now belongs to the sequence.
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
    // The last tokens of the sequence, as many as the longest of bad_words asks for; all of them
    // under no_repeat_ngram_size.
    std::span<const int32_t> recent_tokens() const { return recent_tokens_; }
    // Ids that would end the sequence; the model's own end tokens are not among them under
    // ignore_eos.
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
    size_t num_recent_tokens_ = 0;  // kept at most
    std::vector<int32_t> recent_tokens_;
};

}  // namespace nvllm
