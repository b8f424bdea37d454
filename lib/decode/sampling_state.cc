// Building a sequence's sampling state and keeping it up to date.
#include "lib/decode/sampling_state.h"

#include <algorithm>

#include "kernels/error.h"

namespace nvllm {
namespace {

bool has_penalty(const SamplingParams& params) {
    return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
           params.frequency_penalty != 0.0f;
}

std::vector<int32_t> find_end_token_ids(const SamplingParams& params,
                                        std::span<const int32_t> eos_token_ids) {
    std::vector<int32_t> ids = params.stop_token_ids;
    if (!params.ignore_eos) ids.insert(ids.end(), eos_token_ids.begin(), eos_token_ids.end());
    return ids;
}

// Long limits are common and rarely reached; beyond this the table grows when it must.
constexpr int32_t kMaxReservedTokens = 4096;

}  // namespace

SequenceSamplingState::SequenceSamplingState(const SamplingParams& params,
                                             std::span<const int32_t> token_ids,
                                             int32_t num_prompt_tokens,
                                             std::span<const int32_t> eos_token_ids,
                                             int32_t continuation_index)
    : params_(params),
      continuation_index_(continuation_index),
      num_generated_(static_cast<int32_t>(token_ids.size()) - num_prompt_tokens),
      counts_tokens_(has_penalty(params)),
      end_token_ids_(find_end_token_ids(params, eos_token_ids)) {
    NVLLM_CHECK(params_.seed.has_value(), "a sequence needs a seed before it is sampled");
    NVLLM_CHECK(num_prompt_tokens >= 0 && num_generated_ >= 0, "more prompt tokens than tokens");
    if (!counts_tokens_) return;
    const int32_t room =
        std::min(params_.max_tokens.value_or(kMaxReservedTokens), kMaxReservedTokens);
    counts_.reserve(token_ids.size() + static_cast<size_t>(room));
    const auto prompt = token_ids.first(static_cast<size_t>(num_prompt_tokens));
    for (const int32_t token : prompt) counts_.add_prompt_token(token);
    for (const int32_t token : token_ids.subspan(prompt.size())) counts_.add_generated_token(token);
}

void SequenceSamplingState::accept(int32_t token_id) {
    ++num_generated_;
    if (counts_tokens_) counts_.add_generated_token(token_id);
}

}  // namespace nvllm
