// The check of a request against the context length and the cache.
#include "lib/schedule/planning/request_limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace nvllm {

int32_t longest_length(const SchedulerConfig& config, int32_t num_prompt_tokens,
                       const Request& request) {
    if (request.pooling) return num_prompt_tokens;
    const int32_t left = config.max_model_len - num_prompt_tokens;
    return num_prompt_tokens + std::min(left, request.sampling.max_tokens.value_or(left));
}

namespace {

// The last generated token is never computed.
int32_t num_positions(int32_t length, const Request& request) {
    return request.pooling ? length : length - 1;
}

}  // namespace

int32_t rope_choice(const SchedulerConfig& config, int32_t length, const Request& request) {
    const int32_t original = config.original_context;
    return original > 0 && num_positions(length, request) <= original ? 1 : 0;
}

CacheKeyExtras cache_key_extras(const SchedulerConfig& config, const Request& request) {
    const int32_t length =
        longest_length(config, static_cast<int32_t>(request.prompt_token_ids.size()), request);
    return {request.cache_salt, request.adapter.key, request.media_keys,
            rope_choice(config, length, request)};
}

int32_t max_blocks(const SchedulerConfig& config, const CacheManager& cache, int32_t group,
                   int32_t length, const Request& request) {
    const int32_t each =
        cache.shape().max_blocks(group, num_positions(length, request), config.largest_step());
    const SamplingParams& sampling = request.sampling;
    return sampling.use_beam_search ? each * sampling.num_sequences() : each;
}

namespace {

std::optional<Fault> why_too_long(const SchedulerConfig& config, const Request& request) {
    const size_t num_prompt = request.prompt_token_ids.size();
    const size_t needed = num_prompt + (request.pooling ? 0 : 1);
    if (needed <= static_cast<size_t>(config.max_model_len)) return std::nullopt;
    return Fault{ErrorKind::bad_data,
                 fmt::format("the prompt has {} tokens and {} a context of {} tokens "
                             "(--max-model-len)",
                             num_prompt,
                             request.pooling ? "does not fit" : "leaves no room for an answer in",
                             config.max_model_len)};
}

}  // namespace

std::optional<Fault> why_never(const SchedulerConfig& config, const CacheManager& cache,
                               const Request& request) {
    if (request.prompt_token_ids.empty()) return Fault{ErrorKind::bad_data, "the prompt is empty"};
    if (std::optional<Fault> fault = why_too_long(config, request)) return fault;
    const size_t num_prompt = request.prompt_token_ids.size();
    for (const MediaKey& key : request.media_keys) {
        if (key.position >= 0 && static_cast<size_t>(key.position) < num_prompt) continue;
        return Fault{ErrorKind::bad_data,
                     fmt::format("a medium stands at position {} of a prompt of {} tokens",
                                 key.position, num_prompt)};
    }
    if (request.sampling.use_beam_search &&
        request.sampling.num_sequences() > config.max_num_seqs) {
        return Fault{ErrorKind::bad_data,
                     fmt::format("a beam search of width {} needs as many slots; there are {} "
                                 "(--max-num-seqs)",
                                 request.sampling.num_sequences(), config.max_num_seqs)};
    }
    const int32_t length = longest_length(config, static_cast<int32_t>(num_prompt), request);
    for (int32_t group = 0; group < cache.num_groups(); ++group) {
        const int32_t needed = max_blocks(config, cache, group, length, request);
        const int32_t total = cache.counts(group).total;
        if (needed <= total) continue;
        return Fault{
            ErrorKind::does_not_fit,
            fmt::format("{} prompt tokens and up to {} generated ones need {} cache blocks of {} "
                        "tokens, but there are {}: lower max_tokens, or give the cache more memory "
                        "(--kv-cache-memory-bytes)",
                        num_prompt, length - static_cast<int32_t>(num_prompt), needed,
                        cache.block_size(), total),
            "max_tokens", "context_length_exceeded"};
    }
    return std::nullopt;
}

}  // namespace nvllm
