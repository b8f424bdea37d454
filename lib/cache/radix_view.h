// The prefix index as a tree of runs of tokens: plain data for inspection and for the longest known
// prefix of a prompt, token by token. A copy of one moment.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/cache/cache_manager.h"

namespace nvllm {

// Nodes that follow one another without a fork in between.
struct RadixRun {
    std::optional<int32_t> parent;  // index of the run before it; none: begins a sequence
    std::vector<int32_t> children;  // indices of the runs after it
    std::vector<int32_t> tokens;
    std::string extra;  // of its first block, see CacheKeyExtras; those of later blocks break a run
    int32_t first_depth = 0;                   // blocks before it
    int32_t num_contents = 0;                  // blocks' worth of tokens
    std::vector<std::vector<BlockId>> blocks;  // per cache group, those that hold any of it
    int64_t num_hits = 0;                      // of its first content: later ones have no more
    int64_t last_use = 0;                      // tick of its latest use
    int32_t num_expected = 0;  // waiting sequences that will ask for its first content
    int64_t references = 0;    // to its blocks, by sequences
};

struct RadixView {
    int32_t block_size = 0;
    std::vector<RadixRun> runs;  // a parent before its children, siblings by their tokens
    std::vector<int32_t> roots;

    // Leading tokens known to the tree, whether blocks hold them still or not; not only whole
    // blocks. `extra`: of the first block.
    int32_t longest_match(std::span<const int32_t> tokens, std::string_view extra = {}) const;
};

// O(contents * log).
RadixView radix_view(const CacheManager& cache);

}  // namespace nvllm
