// The check of a request against context and cache, and the order of the waiting.
#include "lib/schedule/admission.h"

#include <fmt/format.h>

#include <algorithm>

namespace nvllm {

int32_t longest_length(const SchedulerConfig& config, int32_t num_prompt_tokens,
                       const SamplingParams& sampling) {
    const int32_t room = config.max_model_len - num_prompt_tokens;
    return num_prompt_tokens + std::min(room, sampling.max_tokens.value_or(room));
}

std::optional<Fault> why_never(const SchedulerConfig& config, const CacheManager& cache,
                               const Request& request) {
    if (request.prompt_token_ids.empty()) return Fault{ErrorKind::bad_data, "the prompt is empty"};
    const size_t num_prompt = request.prompt_token_ids.size();
    if (num_prompt + 1 > static_cast<size_t>(config.max_model_len)) {
        return Fault{
            ErrorKind::bad_data,
            fmt::format("the prompt has {} tokens and leaves no room for an answer in a context "
                        "of {} tokens (--max-model-len)",
                        num_prompt, config.max_model_len)};
    }
    const int32_t length =
        longest_length(config, static_cast<int32_t>(num_prompt), request.sampling);
    for (int32_t group = 0; group < cache.num_groups(); ++group) {
        // The last token is never computed.
        const int32_t needed = cache.most_blocks(group, length - 1, config.largest_step());
        const int32_t total = cache.counts(group).total;
        if (needed <= total) continue;
        return Fault{
            ErrorKind::does_not_fit,
            fmt::format("{} prompt tokens and up to {} generated ones need {} cache blocks of {} "
                        "tokens, but there are {}: lower max_tokens, or give the cache more memory "
                        "(--kv-cache-memory-bytes)",
                        num_prompt, length - static_cast<int32_t>(num_prompt), needed,
                        cache.block_size(), total)};
    }
    return std::nullopt;
}

bool WaitingQueue::stands_before(const ScheduledSequence& one, const ScheduledSequence& other,
                                 double now_s) const {
    const bool swapped = one.sequence.state == SequenceState::swapped;
    if (swapped != (other.sequence.state == SequenceState::swapped)) return swapped;
    return ranks_before(policy_, one.sequence, other.sequence, now_s);
}

void WaitingQueue::sort(double now_s) {
    if (!policy_.changes_while_waiting) return;
    std::ranges::sort(sequences_,
                      [&](const ScheduledSequence* one, const ScheduledSequence* other) {
                          return ranks_before(policy_, one->sequence, other->sequence, now_s);
                      });
}

void WaitingQueue::add(ScheduledSequence& sequence, double now_s) {
    const auto before = [&](const ScheduledSequence* one, const ScheduledSequence* other) {
        return stands_before(*one, *other, now_s);
    };
    const auto place = std::upper_bound(sequences_.begin(), sequences_.end(), &sequence, before);
    sequences_.insert(place, &sequence);
}

void WaitingQueue::remove(const ScheduledSequence& sequence) {
    const auto place = std::find(sequences_.begin(), sequences_.end(), &sequence);
    if (place != sequences_.end()) sequences_.erase(place);
}

}  // namespace nvllm
