// Utilisation, sharing, waste, rates and owners.
#include "lib/cache/cache_stats.h"

#include <doctest/doctest.h>

#include <vector>

#include "lib/cache/cache_inspection.h"
#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

TEST_CASE("an empty cache has figures without a division by nothing") {
    const DetailedCacheStats stats = CacheManager(one_group(8)).detailed_stats();
    CHECK(stats.total.utilisation == 0.0);
    CHECK(stats.total.sharing == 0.0);
    CHECK(stats.total.waste == 0.0);
    CHECK(stats.total.fragmentation == 0.0);
    CHECK(stats.total.longest_unused_run == 8);
    CHECK(stats.hit_rate == 0.0);
    CHECK(stats.eviction == "lru");
}

TEST_CASE("blocks are counted by group, shared ones once") {
    CacheConfig config = one_group(8);
    config.groups.push_back({4, 0});
    CacheManager cache(config);
    SequenceBlocks one(cache, "", 11);
    SequenceBlocks two(cache, "", 12);
    run_through(cache, one, tokens_from(0, 9));
    run_through(cache, two, tokens_from(0, 10));
    const DetailedCacheStats stats = cache.detailed_stats();
    REQUIRE(stats.groups.size() == 2);
    CHECK(stats.groups[0].utilisation == doctest::Approx(0.5));
    CHECK(stats.groups[1].utilisation == doctest::Approx(1.0));
    CHECK(stats.groups[0].references == 6);
    CHECK(stats.groups[0].sharing == doctest::Approx(0.5));
    CHECK(stats.groups[0].waste_slots == 3 + 2);
    CHECK(stats.groups[0].waste == doctest::Approx(5.0 / 16));
    CHECK(stats.total.blocks.used == 8);
    CHECK(stats.total.waste_slots == 10);
    CHECK(stats.hit_rate == doctest::Approx(8.0 / 19));
    CHECK(block_owners(cache.parts().tables, 0, one.table(0)[0]).size() == 2);
    CHECK(block_owners(cache.parts().tables, 0, one.table(0)[2]) == std::vector<uint64_t>{11});
    CHECK(block_owners(cache.parts().tables, 0, two.table(0)[2]) == std::vector<uint64_t>{12});
    cache.free(one);
    CHECK(block_owners(cache.parts().tables, 0, two.table(0)[0]) == std::vector<uint64_t>{12});
}

TEST_CASE("a last block that forks share is wasted once") {
    CacheManager cache(one_group(8));
    SequenceBlocks parent(cache, "");
    SequenceBlocks child(cache, "");
    run_through(cache, parent, tokens_from(0, 5));
    cache.fork(child, parent);
    CHECK(cache.detailed_stats().total.waste_slots == 3);
}

}  // namespace
}  // namespace nvllm
