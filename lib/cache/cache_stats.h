// How well the cache is used: figures for people and logs, made on demand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/cache/compaction.h"
#include "lib/cache/swap_space.h"

namespace nvllm {

// Of one group, or summed over groups. used + cached + free = total.
struct BlockCounts {
    int32_t total = 0;
    int32_t used = 0;
    int32_t cached = 0;
    int32_t free = 0;
    int64_t evictions = 0;  // cached blocks reused for something else
};

struct CacheStats {
    BlockCounts blocks;
    int64_t queried_tokens = 0;  // of sequences that were let in while prefix caching is on
    int64_t hit_tokens = 0;      // of those, found in the cache
};

struct CacheGroupStats {
    BlockCounts blocks;
    double utilisation = 0.0;  // used / total
    int64_t references = 0;    // to used blocks
    double sharing = 0.0;      // references beyond the first / used: blocks that sharing saves
    int64_t waste_slots = 0;   // positions in last blocks that nobody asked for
    double waste = 0.0;        // waste_slots / positions in used blocks
    // 1 - longest run of neighbouring unused blocks / unused blocks; of groups, the largest. Tables
    // need no neighbours, so it costs no speed: it tells what a shrink would have to move first.
    double fragmentation = 0.0;
    int32_t longest_unused_run = 0;
    int32_t host_total = 0;
    int32_t host_used = 0;
};

struct DetailedCacheStats {
    std::vector<CacheGroupStats> groups;
    CacheGroupStats total;
    std::string eviction;   // the row in force, to which total.blocks.evictions belong
    double hit_rate = 0.0;  // hit tokens / queried tokens
    int64_t queried_tokens = 0;
    int64_t hit_tokens = 0;
    int64_t num_contents = 0;          // blocks' worth of tokens that are known
    int64_t num_private_copies = 0;    // shared blocks that were written to
    int64_t num_duplicates_freed = 0;  // blocks whose content another one held already
    CompactionCounts compaction;
    SwapCounts swap;
};

}  // namespace nvllm
