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

}  // namespace
}  // namespace nvllm
