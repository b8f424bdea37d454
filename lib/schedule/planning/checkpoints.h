// Where steps over sequences with states end, so that their states can be kept for others.
//
// A checkpoint is taken where a step begins at the end of a block. A prompt's steps therefore end
// at block ends, and some of them where another request would begin: one with the same prompt, the
// next turn of its conversation, or another conversation with the same first messages. Of an answer
// the newest one is kept, and those at an interval.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

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

// The first block end behind `first` at which a prompt's state is kept: one that a message border
// lies behind, or the prompt's last; -1: there is none.
inline int32_t next_prompt_checkpoint(const CacheManager& cache, const Sequence& sequence,
                                      int32_t first) {
    const int32_t last = prompt_checkpoint(cache, sequence);
    if (first >= last) return -1;
    const std::vector<int32_t>& borders = sequence.message_borders;
    const auto most = static_cast<size_t>(cache.checkpoint_borders());
    for (size_t index = 0; index < borders.size() && most > 0; ++index) {
        if (index > 0 && index + most <= borders.size()) continue;
        const int32_t end = borders[index] / cache.block_size() * cache.block_size();
        if (end > first && end < last) return end;
    }
    return last;
}

// What is kept of the state before the token at `next`.
inline StateUse state_use(const CacheManager& cache, const Sequence& sequence, int32_t next) {
    if (next == next_prompt_checkpoint(cache, sequence, next - 1)) return StateUse::keep;
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
    const int32_t of_prompt = next_prompt_checkpoint(cache, sequence, first);
    if (first < of_prompt && of_prompt < end) return of_prompt - first;
    if (end >= sequence.num_tokens() + sequence.num_placeholders) return granted;
    for (const int32_t step : {cache.checkpoint_interval(), cache.block_size()}) {
        const int32_t last = end / step * step;
        if (last > first) return last - first;
    }
    return granted;
}

}  // namespace nvllm
