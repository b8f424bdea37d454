// Computes the statistics of the cache and finds the owners of blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/cache/cache_parts.h"
#include "lib/cache/cache_stats.h"

namespace nvllm {

BlockCounts block_counts(const BlockPool& pool);
// Summed over groups.
BlockCounts total_counts(std::span<const BlockPool> pools);

// Of the group where it is worst, see CacheGroupStats. O(blocks).
double fragmentation(std::span<const BlockPool> pools);

// O(blocks and tables).
DetailedCacheStats detailed_stats(const CacheParts& parts);

// The owners of the sequences whose tables hold the block, in no order.
std::vector<uint64_t> block_owners(const BlockTables& tables, int32_t group, BlockId block);

}  // namespace nvllm
