// Where steps over sequences with states end, so that their states can be kept for others.
//
// A checkpoint is taken where a step begins at the end of a block. A prompt's steps therefore end
// at block ends, and one of them where another request with the same prompt would begin.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/cache/cache_manager.h"
#include "lib/request/sequence.h"

namespace nvllm {

// The last block end at which a request with the same prompt can begin: one token is left over.
inline int32_t prompt_checkpoint(const CacheManager& cache, const Sequence& sequence) {
    return (sequence.num_prompt_tokens - 1) / cache.block_size() * cache.block_size();
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
