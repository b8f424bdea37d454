// Statistics of the cache, computed on demand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/cache/compaction.h"
#include "lib/cache/swap_space.h"
#include "lib/cache/tiers/tier_stats.h"

namespace nvllm {

// Of one group, or summed over groups. used + cached + free = total.
struct BlockCounts {
    int32_t total = 0;
    int32_t used = 0;
    int32_t cached = 0;
    int32_t free = 0;
    int64_t evictions = 0;  // cached blocks reused for other content
};

struct CacheStats {
    BlockCounts blocks;
    int64_t queried_tokens = 0;  // of admitted sequences, if prefix caching is on
    int64_t hit_tokens = 0;      // of those, found in the cache
    TierStats host_tier;
    TierStats disk_tier;
};

// Blocks of a prefix cache that was reset.
struct CacheReset {
    int32_t removed = 0;  // that were cached and are free now
    int32_t in_use = 0;   // of sequences: these stay
};

struct CacheGroupStats {
    BlockCounts blocks;
    double utilisation = 0.0;  // used / total
    int64_t references = 0;    // to used blocks
    double sharing = 0.0;      // references beyond the first / used: blocks that sharing saves
    int64_t waste_slots = 0;   // positions in last blocks that no sequence asked for
    double waste = 0.0;        // waste_slots / positions in used blocks
    // 1 - longest run of adjacent unused blocks / unused blocks; of groups, the largest. It costs
    // no speed, because tables need no adjacent blocks; it shows how much a shrink has to move.
    double fragmentation = 0.0;
    int32_t longest_unused_run = 0;
    int32_t host_total = 0;
    int32_t host_used = 0;
    int32_t host_cached = 0;  // of those used, by the prefix cache
};

struct DetailedCacheStats {
    std::vector<CacheGroupStats> groups;
    CacheGroupStats total;
    std::string eviction;   // name of the eviction policy
    double hit_rate = 0.0;  // hit tokens / queried tokens
    int64_t queried_tokens = 0;
    int64_t hit_tokens = 0;
    int64_t num_contents = 0;          // nodes of the prefix index, a block of tokens each
    int64_t num_private_copies = 0;    // shared blocks copied before a write
    int64_t num_duplicates_freed = 0;  // blocks freed because another one holds the same content
    CompactionCounts compaction;
    SwapCounts swap;
    TierStats host_tier;
    TierStats disk_tier;
};

}  // namespace nvllm
