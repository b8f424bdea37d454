// Host blocks: all or nothing, what is found is not copied, and when host blocks are free again.
#include <doctest/doctest.h>

#include <vector>

#include "kernels/error.h"
#include "lib/cache/swap_space.h"
#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

TEST_CASE("host blocks are given once and given back once") {
    const std::vector<int32_t> sizes{2, 0};
    SwapSpace space(sizes);
    CHECK(space.take(0) == 0);
    CHECK(space.take(0) == 1);
    CHECK_THROWS_AS(space.take(0), Error);
    CHECK_THROWS_AS(space.take(1), Error);
    space.free(0, 0);
    CHECK_THROWS_AS(space.free(0, 0), Error);
    CHECK(space.num_used(0) == 1);
    space.check_integrity();
}

TEST_CASE("what is still found on the device is not copied back") {
    CacheManager cache(one_group(8, 0, 4));
    const std::vector<int32_t> tokens = tokens_from(0, 10);
    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, tokens);
    std::vector<SwapMove> moves;
    REQUIRE(cache.swap_out(sequence, 10, moves));
    CHECK(sequence.swapped_out());
    CHECK(sequence.empty());
    CHECK(moves.size() == 3);
    CHECK(cache.counts(0).used == 0);
    CHECK(cache.counts(0).cached == 2);
    CHECK(cache.detailed_stats().total.host_used == 3);
    const std::vector<const SequenceBlocks*> all{&sequence};
    cache.check_integrity(all);

    moves.clear();
    REQUIRE(cache.swap_in(sequence, 0, moves));
    REQUIRE(moves.size() == 1);
    CHECK(moves[0].table_index == 2);
    CHECK(sequence.table(0).size() == 3);
    CHECK(cache.detailed_stats().swap.blocks_found == 2);
    CHECK(sequence.num_cached_blocks() == 2);
    cache.check_integrity(all);
    // The plan that copies reads the host blocks still.
    CHECK(cache.detailed_stats().total.host_used == 3);
    cache.name_in_plan(sequence, 1);
    CHECK(cache.detailed_stats().total.host_used == 3);
    cache.plan_committed(1);
    CHECK(cache.detailed_stats().total.host_used == 0);
}

TEST_CASE("what was evicted meanwhile comes back and is found by others again") {
    CacheManager cache(one_group(4, 0, 4));
    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, tokens_from(0, 10));
    std::vector<SwapMove> moves;
    REQUIRE(cache.swap_out(sequence, 10, moves));
    {
        SequenceBlocks other(cache, "");
        run_through(cache, other, tokens_from(100, 16));
        CHECK(matched(cache, tokens_from(0, 10)) == 0);
        CHECK_FALSE(cache.swap_in(sequence, 0, moves));
        CHECK(sequence.swapped_out());
    }
    moves.clear();
    CHECK_FALSE(cache.swap_in(sequence, 2, moves));
    REQUIRE(cache.swap_in(sequence, 1, moves));
    CHECK(moves.size() == 3);
    CHECK(matched(cache, tokens_from(0, 10)) == 8);
    const std::vector<const SequenceBlocks*> all{&sequence};
    cache.check_integrity(all);
}

TEST_CASE("without host blocks in every group nothing changes") {
    CacheConfig config = one_group(8, 0, 4);
    config.groups.push_back({8, 0, 2});
    CacheManager cache(config);
    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, tokens_from(0, 10));
    std::vector<SwapMove> moves;
    CHECK_FALSE(cache.swap_out(sequence, 10, moves));
    CHECK(moves.empty());
    CHECK_FALSE(sequence.empty());
    CHECK(cache.detailed_stats().total.host_used == 0);
    // Blocks without content are not copied.
    CHECK(cache.swap_out(sequence, 8, moves));
    CHECK(moves.size() == 4);
}

TEST_CASE("a sequence that ends gives its host blocks back; a lost memory takes everything") {
    CacheManager cache(one_group(8, 0, 4));
    std::vector<SwapMove> moves;
    SequenceBlocks sequence(cache, "");
    {
        SequenceBlocks other(cache, "");
        run_through(cache, other, tokens_from(0, 10));
        REQUIRE(cache.swap_out(other, 10, moves));
        CHECK_THROWS_AS(cache.clear(), Error);
        CHECK_THROWS_AS(cache.commit(other, tokens_from(0, 10), 10), Error);
    }
    CHECK(cache.detailed_stats().total.host_used == 0);
    run_through(cache, sequence, tokens_from(0, 10));
    REQUIRE(cache.swap_out(sequence, 10, moves));
    REQUIRE(cache.swap_in(sequence, 0, moves));
    cache.name_in_plan(sequence, 1);
    cache.free(sequence);
    cache.clear();
    CHECK(cache.detailed_stats().total.host_used == 0);
    CHECK(cache.counts(0).free == 8);
}

TEST_CASE("the blocks of a faulty sequence are removed even while it is swapped out") {
    CacheManager cache(one_group(8, 0, 4));
    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, tokens_from(0, 10));
    std::vector<SwapMove> moves;
    REQUIRE(cache.swap_out(sequence, 10, moves));
    CHECK(matched(cache, tokens_from(0, 10)) == 8);
    cache.discard(sequence);
    CHECK(matched(cache, tokens_from(0, 10)) == 0);
    cache.check_integrity({});
}

}  // namespace
}  // namespace nvllm
