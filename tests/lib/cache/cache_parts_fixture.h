// The parts of the cache without CacheManager, for tests of one part.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/cache/block_tables.h"

namespace nvllm {

struct PartsFixture {
    explicit PartsFixture(const std::vector<CacheGroupConfig>& groups,
                          std::string_view policy = "lru", int32_t block_size = 4)
        : shape(block_size, groups),
          pools(make_pools(groups, policy)),
          index(block_size, sizes(groups), HashKey{1, 2}),
          ranking(find_eviction(policy), {}, 1e6, shape, pools),
          hints(index, ranking, find_eviction(policy).uses_reuse_hints),
          space(std::vector<int32_t>(groups.size(), 0)),
          host(false, index, space, shape.num_groups()),
          disk(nullptr, {}, shape, index, hints, space, host),
          prefix_cache(true, shape, pools, index, ranking, hints, host, disk),
          tables(shape, pools, prefix_cache, host, deferred) {}

    static std::vector<BlockPool> make_pools(const std::vector<CacheGroupConfig>& groups,
                                             std::string_view policy) {
        std::vector<BlockPool> pools;
        const bool ranked = find_eviction(policy).value != nullptr;
        for (const CacheGroupConfig& group : groups) pools.emplace_back(group.num_blocks, ranked);
        return pools;
    }
    static std::vector<int32_t> sizes(const std::vector<CacheGroupConfig>& groups) {
        std::vector<int32_t> sizes;
        for (const CacheGroupConfig& group : groups) sizes.push_back(group.num_blocks);
        return sizes;
    }

    CacheSequence sequence(uint64_t owner = 0) const {
        CacheSequence state;
        state.owner = owner;
        state.tables.resize(pools.size());
        return state;
    }
    // Admits a sequence and commits all its tokens.
    void run(CacheSequence& state, const std::vector<int32_t>& tokens) {
        const auto count = static_cast<int32_t>(tokens.size());
        NVLLM_CHECK(tables.admit(state, prefix_cache.match(state, tokens), count, 64, 0),
                    "the sequence does not fit");
        prefix_cache.insert_full_blocks(state, tokens, count);
    }
    void free(CacheSequence& state) {
        for (int32_t group = 0; group < shape.num_groups(); ++group) tables.clear(state, group);
        prefix_cache.set_cached(state, nullptr, 0);
    }

    CacheShape shape;
    std::vector<BlockPool> pools;
    PrefixIndex index;
    EvictionRanking ranking;
    ReuseHints hints;
    SwapSpace space;
    HostTier host;
    DiskTier disk;
    PrefixCache prefix_cache;
    DeferredFree deferred;
    BlockTables tables;
};

}  // namespace nvllm
