// Metadata of nodes and the ranks that follow from it.
#include "lib/cache/eviction_ranking.h"

#include <doctest/doctest.h>

#include "tests/lib/cache/cache_parts_fixture.h"
#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

TEST_CASE("a touch counts a hit and moves the block in the order of eviction") {
    PartsFixture parts({{8, 0}}, "lfu");
    CacheSequence one = parts.sequence();
    CacheSequence two = parts.sequence();
    parts.run(one, tokens_from(0, 4));
    parts.run(two, tokens_from(100, 4));
    PrefixNode& node = *one.last_cached;
    const BlockId block = one.tables[0][0];
    parts.free(one);
    parts.free(two);
    CHECK(parts.pools[0].next_evicted(0.0) == block);
    parts.ranking.touch(node);
    CHECK(node.num_hits == 1);
    CHECK(parts.pools[0].next_evicted(0.0) != block);
    CHECK(parts.ranking.rank(node, 0).value == 1.0);
}

TEST_CASE("the clock ticks once for a block taken and for a block matched") {
    PartsFixture parts({{8, 0}});
    CacheSequence one = parts.sequence();
    parts.run(one, tokens_from(0, 9));
    CHECK(parts.ranking.tick() == 3);
    CacheSequence two = parts.sequence();
    parts.run(two, tokens_from(0, 9));
    CHECK(parts.ranking.tick() == 6);
    CHECK(two.last_cached->last_use == 5);
    parts.free(one);
    parts.free(two);
}

TEST_CASE("a block with cached children waits for them under a policy that says so") {
    PartsFixture parts({{8, 0}}, "cost");
    CacheSequence one = parts.sequence();
    parts.run(one, tokens_from(0, 8));
    const PrefixNode& child = *one.last_cached;
    CHECK(parts.ranking.rank(*child.parent, 0).has_children);
    CHECK_FALSE(parts.ranking.rank(child, 0).has_children);
    parts.free(one);
}

}  // namespace
}  // namespace nvllm
