// Admission, growth and freeing without CacheManager.
#include "lib/cache/block_tables.h"

#include <doctest/doctest.h>

#include "tests/lib/cache/cache_parts_fixture.h"
#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

TEST_CASE("admission counts the matched blocks that no sequence uses") {
    PartsFixture parts({{4, 0}});
    CacheSequence first = parts.sequence();
    parts.run(first, tokens_from(0, 8));
    parts.free(first);
    CacheSequence second = parts.sequence();
    const PrefixMatch match = parts.prefix_cache.match(second, tokens_from(0, 20));
    CHECK(match.num_tokens == 8);
    CHECK(parts.tables.num_missing(0, match, 16, 64, 0) == 0);
    CHECK(parts.tables.num_missing(0, match, 16, 64, 1) == 1);
    CHECK_FALSE(parts.tables.admit(second, match, 20, 64, 0));
    CHECK(second.empty());
    CHECK(parts.tables.admit(second, match, 16, 64, 0));
    CHECK(second.tables[0].size() == 4);
    parts.free(second);
}

TEST_CASE("growth takes blocks in all groups or none") {
    PartsFixture parts({{4, 0}, {2, 0}});
    CacheSequence state = parts.sequence();
    std::vector<std::vector<BlockId>> added;
    CHECK(parts.tables.allocate(state, 8, added));
    CHECK(added[0].size() == 2);
    CHECK(added[1].size() == 2);
    added.clear();
    CHECK(parts.tables.allocate(state, 8, added));
    CHECK(added.empty());
    CHECK_FALSE(parts.tables.allocate(state, 9, added));
    CHECK(added.empty());
    CHECK(state.tables[0].size() == 2);
    CHECK(state.num_positions == 8);
    parts.free(state);
}

TEST_CASE("blocks out of the window are freed, later if a plan may read them") {
    PartsFixture parts({{8, 5}});
    CacheSequence state = parts.sequence();
    std::vector<std::vector<BlockId>> added;
    REQUIRE(parts.tables.allocate(state, 16, added));
    parts.tables.free_out_of_window(state, 8);
    CHECK(state.tables[0].num_given_back() == 1);
    CHECK(parts.pools[0].num_used() == 3);
    state.last_plan = 1;
    parts.deferred.name_plan(1);
    parts.tables.free_out_of_window(state, 12);
    CHECK(state.tables[0].num_given_back() == 2);
    CHECK(parts.pools[0].num_used() == 3);
    CHECK(parts.deferred.has_blocks());
}

TEST_CASE("the list of sequences has no gap") {
    PartsFixture parts({{8, 0}});
    CacheSequence one = parts.sequence(1);
    CacheSequence two = parts.sequence(2);
    CacheSequence three = parts.sequence(3);
    for (CacheSequence* state : {&one, &two, &three}) parts.tables.add(*state);
    parts.tables.remove(one);
    REQUIRE(parts.tables.all().size() == 2);
    CHECK(parts.tables.all()[0]->owner == 3);
    CHECK(three.index == 0);
    CacheSequence moved = two;
    parts.tables.replace(moved);
    CHECK(parts.tables.all()[1] == &moved);
}

}  // namespace
}  // namespace nvllm
