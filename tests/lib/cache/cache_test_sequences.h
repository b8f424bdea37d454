// Short ways to fill a cache in tests.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "lib/cache/cache_manager.h"

namespace nvllm {

inline std::vector<int32_t> tokens_from(int32_t first, int32_t count) {
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
    return tokens;
}

inline CacheConfig one_group(int32_t num_blocks, int32_t window = 0, int32_t num_host_blocks = 0) {
    return {.block_size = 4,
            .groups = {{num_blocks, window, num_host_blocks}},
            .hash_key = HashKey{1, 2}};
}

// Lets a sequence in and computes all its tokens.
inline void run_through(CacheManager& cache, SequenceBlocks& sequence,
                        const std::vector<int32_t>& tokens) {
    const auto count = static_cast<int32_t>(tokens.size());
    REQUIRE(cache.admit(sequence, cache.match(sequence, tokens), count, 64, 0));
    cache.commit(sequence, tokens, count);
}

inline int32_t matched(CacheManager& cache, const std::vector<int32_t>& tokens) {
    SequenceBlocks probe(cache, "");
    return cache.match(probe, tokens).num_tokens;
}

}  // namespace nvllm
