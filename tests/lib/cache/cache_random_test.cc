// Long random runs of everything at once: whatever a sequence reads is what it would have computed
// itself, under every eviction policy.
#include <doctest/doctest.h>

#include "tests/lib/cache/cache_world.h"

namespace nvllm {
namespace {

TEST_CASE("random forks, swaps, moves and evictions keep every content right") {
    DetailedCacheStats seen;
    int hits = 0;
    int copies = 0;
    int moves = 0;
    for (const EvictionPolicy& policy : eviction_policies()) {
        for (const int32_t window : {0, 1, 5, 9}) {
            for (const int depth : {1, 3}) {
                CAPTURE(policy.name);
                CAPTURE(window);
                CAPTURE(depth);
                CacheConfig config{
                    .block_size = 4, .groups = {{40, 0, 24}}, .hash_key = HashKey{5, 6}};
                if (window > 0) config.groups.push_back({28, window, 20});
                config.eviction = policy.name;
                CacheWorld world(config, static_cast<unsigned>(100 + window * 10 + depth), depth);
                world.run(4000);
                CHECK(world.wrong == 0);
                hits += world.hits;
                copies += world.num_copies;
                moves += world.num_moves;
                const DetailedCacheStats stats = world.cache.detailed_stats();
                seen.swap.blocks_out += stats.swap.blocks_out;
                seen.swap.blocks_in += stats.swap.blocks_in;
                seen.swap.blocks_found += stats.swap.blocks_found;
                seen.total.blocks.evictions += stats.total.blocks.evictions;
                seen.compaction.compactions += stats.compaction.compactions;
                seen.num_duplicates_freed += stats.num_duplicates_freed;
            }
        }
    }
    MESSAGE("hits ", hits, ", evictions ", seen.total.blocks.evictions, ", private copies ", copies,
            ", blocks out ", seen.swap.blocks_out, " in ", seen.swap.blocks_in, " found ",
            seen.swap.blocks_found, ", compactions ", seen.compaction.compactions, " moving ",
            moves, ", duplicates freed ", seen.num_duplicates_freed);
    CHECK(hits > 1000);
    CHECK(seen.total.blocks.evictions > 1000);
    CHECK(copies > 200);
    CHECK(seen.swap.blocks_in > 200);
    CHECK(seen.swap.blocks_found > 100);
    CHECK(seen.compaction.compactions > 100);
    CHECK(moves > 200);
}

TEST_CASE("contents that were evicted come back from host memory, whatever else is done") {
    TierStats seen;
    int64_t swapped = 0;
    for (const EvictionPolicy& policy : eviction_policies()) {
        for (const int32_t window : {0, 5}) {
            for (const int32_t num_slots : {0, 12}) {
                CAPTURE(policy.name);
                CAPTURE(window);
                CAPTURE(num_slots);
                CacheConfig config{
                    .block_size = 4, .groups = {{32, 0, 90}}, .hash_key = HashKey{5, 6}};
                if (window > 0) config.groups.push_back({24, window, 70});
                if (num_slots > 0) {
                    config.groups.push_back({num_slots, 0, 24, CacheGroupKind::state});
                }
                config.eviction = policy.name;
                config.keeps_evicted = true;
                CacheWorld world(config, static_cast<unsigned>(window * 10 + num_slots), 2);
                world.run(4000);
                CHECK(world.wrong == 0);
                const TierStats& counts = world.cache.parts().host_tier.stats();
                seen.blocks_kept += counts.blocks_kept;
                seen.blocks_back += counts.blocks_back;
                seen.blocks_dropped += counts.blocks_dropped;
                swapped += world.cache.detailed_stats().swap.blocks_out;
            }
        }
    }
    MESSAGE("kept ", seen.blocks_kept, ", back ", seen.blocks_back, ", dropped ",
            seen.blocks_dropped, ", of sequences ", swapped);
    CHECK(seen.blocks_kept > 1000);
    CHECK(seen.blocks_back > 300);
    CHECK(seen.blocks_dropped > 500);
    CHECK(swapped > 500);
}

// A paged group, one with a window, and recurrent states.
TEST_CASE("random operations keep states and their checkpoints right") {
    int64_t evictions = 0;
    int checkpoints_used = 0;
    int copies = 0;
    int moves = 0;
    for (const EvictionPolicy& policy : eviction_policies()) {
        for (const int32_t num_slots : {6, 30}) {
            for (const int depth : {1, 3}) {
                CAPTURE(policy.name);
                CAPTURE(num_slots);
                CAPTURE(depth);
                CacheConfig config{
                    .block_size = 4, .groups = {{40, 0, 24}}, .hash_key = HashKey{5, 6}};
                config.groups.push_back({num_slots, 0, 4, CacheGroupKind::state});
                if (num_slots == 30) config.groups.push_back({28, 9, 20});
                config.eviction = policy.name;
                CacheWorld world(config, static_cast<unsigned>(num_slots * 10 + depth), depth);
                world.run(4000);
                CHECK(world.wrong == 0);
                evictions += world.cache.detailed_stats().groups[1].blocks.evictions;
                checkpoints_used += world.num_checkpoints_used;
                copies += world.num_copies;
                moves += world.num_moves;
            }
        }
    }
    MESSAGE("checkpoints used ", checkpoints_used, ", evicted ", evictions, ", copies ", copies,
            ", moves ", moves);
    CHECK(checkpoints_used > 200);
    CHECK(evictions > 200);
    CHECK(copies > 1000);
    CHECK(moves > 100);
}

TEST_CASE("a cache of states alone, without a prefix cache, keeps them right") {
    CacheConfig config{.block_size = 4,
                       .groups = {{24, 0, 6, CacheGroupKind::state}},
                       .enable_prefix_caching = false,
                       .hash_key = HashKey{5, 6}};
    CacheWorld world(config, 7, 3);
    world.run(4000);
    CHECK(world.wrong == 0);
    CHECK(world.num_checkpoints_used == 0);
    CHECK(world.num_copies > 3);
}

}  // namespace
}  // namespace nvllm
