// Where steps over sequences with states end, so that their states can be kept for others.
//
// A checkpoint is taken where a step begins at the end of a block. A prompt's steps therefore end
// at block ends, and one of them where another request with the same prompt, or the next turn of
// its conversation, would begin. Of an answer the newest one is kept, and those at an interval.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "lib/cache/cache_manager.h"
#include "lib/request/sequence.h"

namespace nvllm {

// The last block end at which a request with the same prompt can begin, one token being left over,
// and which the next turn of its conversation shares.
inline int32_t prompt_checkpoint(const CacheManager& cache, const Sequence& sequence) {
    int32_t count = sequence.num_prompt_tokens - 1;
    if (sequence.num_stable_tokens > 0) count = std::min(count, sequence.num_stable_tokens);
    return count / cache.block_size() * cache.block_size();
}

// What is kept of the state before the token at `next`.
inline StateUse state_use(const CacheManager& cache, const Sequence& sequence, int32_t next) {
    if (next == prompt_checkpoint(cache, sequence)) return StateUse::keep;
    return next > sequence.num_prompt_tokens ? StateUse::keep_newest : StateUse::at_interval;
}

// Drafts behind a sequence's last known token, of `length`, so that a step ends where a checkpoint
// may be taken: at some block ends, because a step that is cut short accepts less.
inline int32_t count_drafts_to_checkpoint(const CacheManager& cache, int32_t length) {
    constexpr int32_t kTokens = 64;
    if (!cache.keeps_checkpoints()) return std::numeric_limits<int32_t>::max();
    const int32_t step = std::max(1, kTokens / cache.block_size()) * cache.block_size();
    return (length + step - 1) / step * step - length;
}

// Of `granted` tokens from position `first` on, those before the next checkpoint; all of them where
// none is taken.
inline int32_t count_to_checkpoint(const CacheManager& cache, const Sequence& sequence,
                                   int32_t first, int32_t granted) {
    if (!cache.keeps_checkpoints()) return granted;
    const int32_t end = first + granted;
    const int32_t of_prompt = prompt_checkpoint(cache, sequence);
    if (first < of_prompt && of_prompt < end) return of_prompt - first;
    if (end >= sequence.num_tokens() + sequence.num_placeholders) return granted;
    for (const int32_t step : {cache.checkpoint_interval(), cache.block_size()}) {
        const int32_t last = end / step * step;
        if (last > first) return last - first;
    }
    return granted;
}

}  // namespace nvllm
