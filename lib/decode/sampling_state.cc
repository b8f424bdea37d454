// Creates and updates the sampling state of a sequence.
#include "lib/decode/sampling_state.h"

#include <algorithm>
#include <limits>

#include "kernels/error.h"
#include "lib/request/end_tokens.h"

namespace nvllm {
namespace {

bool has_penalty(const SamplingParams& params) {
    return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
           params.frequency_penalty != 0.0f;
}

// To forbid the last token of a sequence of n, the n - 1 before it must be known.
size_t num_tokens_to_store(const SamplingParams& params) {
    if (params.no_repeat_ngram_size > 0) return std::numeric_limits<size_t>::max();
    size_t longest = 0;
    for (const auto& word : params.bad_words) longest = std::max(longest, word.size());
    return longest == 0 ? 0 : longest - 1;
}

// Large limits are common and rarely reached; a table that is full grows.
constexpr int32_t kMaxReservedTokens = 4096;

}  // namespace

SequenceSamplingState::SequenceSamplingState(const SamplingParams& params,
                                             std::span<const int32_t> token_ids,
                                             int32_t num_prompt_tokens,
                                             std::span<const int32_t> eos_token_ids,
                                             int32_t continuation_index)
    : params_(params),
      continuation_index_(continuation_index),
      num_prompt_tokens_(num_prompt_tokens),
      num_generated_(static_cast<int32_t>(token_ids.size()) - num_prompt_tokens),
      counts_tokens_(has_penalty(params)),
      end_token_ids_(nvllm::end_token_ids(params, eos_token_ids)),
      allowed_token_ids_(params.allowed_token_ids) {
    std::sort(allowed_token_ids_.begin(), allowed_token_ids_.end());
    NVLLM_CHECK(params_.seed.has_value(), "a sequence needs a seed before it is sampled");
    NVLLM_CHECK(num_prompt_tokens >= 0 && num_generated_ >= 0, "more prompt tokens than tokens");
    const int32_t num_reserved =
        std::min(params_.max_tokens.value_or(kMaxReservedTokens), kMaxReservedTokens);
    const size_t max_tokens = token_ids.size() + static_cast<size_t>(num_reserved);
    num_recent_tokens_ = num_tokens_to_store(params_);
    const auto recent = token_ids.last(std::min(num_recent_tokens_, token_ids.size()));
    recent_tokens_.reserve(std::min(num_recent_tokens_, max_tokens) + 1);
    recent_tokens_.assign(recent.begin(), recent.end());
    if (!counts_tokens_) return;
    counts_.reserve(max_tokens);
    const auto prompt = token_ids.first(static_cast<size_t>(num_prompt_tokens));
    for (const int32_t token : prompt) counts_.add_prompt_token(token);
    for (const int32_t token : token_ids.subspan(prompt.size())) counts_.add_generated_token(token);
}

void SequenceSamplingState::accept(int32_t token_id) {
    ++num_generated_;
    if (counts_tokens_) counts_.add_generated_token(token_id);
    if (num_recent_tokens_ == 0) return;
    recent_tokens_.push_back(token_id);
    if (recent_tokens_.size() > num_recent_tokens_) recent_tokens_.erase(recent_tokens_.begin());
}

}  // namespace nvllm
