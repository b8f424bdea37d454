// Lookup, insertion and eviction without CacheManager.
#include "lib/cache/prefix/prefix_cache.h"

#include <doctest/doctest.h>

#include "tests/lib/cache/cache_parts_fixture.h"
#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

int32_t num_matched(PartsFixture& parts, const std::vector<int32_t>& tokens) {
    CacheSequence probe = parts.sequence();
    return parts.prefix_cache.match(probe, tokens).num_tokens;
}

TEST_CASE("full blocks are found after their sequence is gone, the last token is left over") {
    PartsFixture parts({{8, 0}});
    CacheSequence state = parts.sequence();
    parts.run(state, tokens_from(0, 10));
    parts.free(state);
    CHECK(num_matched(parts, tokens_from(0, 10)) == 8);
    CHECK(num_matched(parts, tokens_from(0, 8)) == 4);
    CHECK(num_matched(parts, tokens_from(5, 8)) == 0);
    CHECK(parts.pools[0].num_cached() == 2);
}

TEST_CASE("taking a block evicts the longest unused one if none is free") {
    PartsFixture parts({{3, 0}});
    CacheSequence state = parts.sequence();
    parts.run(state, tokens_from(0, 12));
    parts.free(state);
    // The last block of the sequence was freed first.
    parts.prefix_cache.take(0);
    CHECK(num_matched(parts, tokens_from(0, 13)) == 8);
    parts.prefix_cache.evict_next(0);
    CHECK(num_matched(parts, tokens_from(0, 13)) == 4);
    CHECK(parts.pools[0].num_free() == 1);
}

TEST_CASE("blocks that a sequence inserted itself are removed, shared ones stay") {
    PartsFixture parts({{8, 0}});
    CacheSequence first = parts.sequence();
    parts.run(first, tokens_from(0, 5));
    CacheSequence second = parts.sequence();
    parts.run(second, tokens_from(0, 12));
    CHECK(second.num_shared == 1);
    CHECK(second.num_cached == 3);
    CHECK(parts.prefix_cache.path(second).size() == 3);
    parts.prefix_cache.remove_own(second);
    CHECK(num_matched(parts, tokens_from(0, 13)) == 4);
    parts.free(second);
    parts.free(first);
    parts.prefix_cache.clear(0);
    CHECK(num_matched(parts, tokens_from(0, 13)) == 0);
    CHECK(parts.index.num_nodes() == 0);
}

TEST_CASE("an unused replica is freed when another block with its content is inserted") {
    PartsFixture parts({{8, 0}});
    CacheSequence one = parts.sequence();
    CacheSequence two = parts.sequence();
    REQUIRE(parts.tables.admit(two, {}, 4, 64, 0));
    parts.run(one, tokens_from(0, 4));
    parts.free(one);
    CHECK(parts.pools[0].num_cached() == 1);
    parts.prefix_cache.insert_full_blocks(two, tokens_from(0, 4), 4);
    CHECK(parts.pools[0].num_cached() == 0);
    CHECK(parts.prefix_cache.num_duplicates_freed() == 1);
    parts.free(two);
}

}  // namespace
}  // namespace nvllm
