// The parts of CacheManager, for inspection.
#pragma once

#include <span>

#include "lib/cache/block_pool.h"
#include "lib/cache/block_tables.h"
#include "lib/cache/cache_shape.h"
#include "lib/cache/compactor.h"
#include "lib/cache/copy_on_write.h"
#include "lib/cache/deferred_free.h"
#include "lib/cache/eviction_ranking.h"
#include "lib/cache/prefix/prefix_cache.h"
#include "lib/cache/prefix/reuse_hints.h"
#include "lib/cache/swap_space.h"
#include "lib/cache/swapper.h"
#include "lib/cache/tiers/disk_tier.h"
#include "lib/cache/tiers/host_tier.h"

namespace nvllm {

struct CacheParts {
    const CacheShape& shape;
    std::span<const BlockPool> pools;  // per group
    const PrefixIndex& index;
    const EvictionRanking& ranking;
    const ReuseHints& hints;
    const PrefixCache& prefix_cache;
    const DeferredFree& deferred;
    const BlockTables& tables;
    const CopyOnWrite& copy_on_write;
    const SwapSpace& swap_space;
    const HostTier& host_tier;
    const DiskTier& disk_tier;
    const Swapper& swapper;
    const Compactor& compactor;
};

}  // namespace nvllm
