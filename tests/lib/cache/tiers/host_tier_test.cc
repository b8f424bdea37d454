// What leaves the device, what comes back, and who gives way.
#include "lib/cache/tiers/host_tier.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

struct Moves {
    std::vector<SwapMove> out;
    std::vector<SwapMove> in;
};

Moves taken(CacheManager& cache) {
    Moves moves;
    cache.take_tier_moves(moves.out, moves.in);
    return moves;
}

CacheConfig keeping(int32_t num_blocks, int32_t num_host_blocks) {
    CacheConfig config = one_group(num_blocks, 0, num_host_blocks);
    config.keeps_evicted = true;
    return config;
}

// Comes, is computed and goes; its full blocks stay cached.
void pass(CacheManager& cache, const std::vector<int32_t>& tokens) {
    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, tokens);
}

TEST_CASE("an evicted block goes to host memory and comes back into another one") {
    CacheManager cache(keeping(4, 8));
    const std::vector<int32_t> first = tokens_from(0, 9);
    pass(cache, first);
    CHECK_FALSE(cache.has_tier_moves());
    pass(cache, tokens_from(100, 16));
    const Moves away = taken(cache);
    REQUIRE(away.out.size() == 2);
    CHECK(away.in.empty());
    CHECK(away.out[0].host_block != away.out[1].host_block);
    CHECK(matched(cache, first) == 8);

    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, first);
    const Moves back = taken(cache);
    REQUIRE(back.in.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
        CHECK(sequence.table(0)[static_cast<int32_t>(i)] == back.in[i].device_block);
    }
    // Three blocks of the other one had to leave for them.
    CHECK(back.out.size() == 3);
    CHECK(matched(cache, tokens_from(100, 16)) == 12);
    const TierStats stats = cache.stats().host_tier;
    CHECK(stats.blocks_back == 2);
    CHECK(stats.hit_tokens == 8);
    CHECK(stats.blocks_held == stats.blocks_kept);
    CHECK(cache.detailed_stats().total.host_cached == stats.blocks_held);
}

TEST_CASE("a content that is in host memory already leaves the device without a copy") {
    CacheManager cache(keeping(4, 8));
    const std::vector<int32_t> first = tokens_from(0, 9);
    pass(cache, first);
    pass(cache, tokens_from(100, 16));
    pass(cache, first);
    taken(cache);
    const int64_t before = cache.parts().host_tier.stats().blocks_kept;
    pass(cache, tokens_from(200, 16));
    CHECK(matched(cache, first) == 8);
    // Of the second one, of which one block was left.
    CHECK(cache.parts().host_tier.stats().blocks_kept - before == 1);
}

TEST_CASE("the content used least recently gives way, and none that is about to come back") {
    CacheManager cache(keeping(4, 2));
    const std::vector<int32_t> first = tokens_from(0, 9);
    pass(cache, first);
    pass(cache, tokens_from(100, 16));
    taken(cache);
    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, first);
    // Both host blocks are read by the next plan: what is evicted now is lost.
    const Moves back = taken(cache);
    CHECK(back.in.size() == 2);
    CHECK(back.out.empty());
    CHECK(matched(cache, first) == 8);
}

TEST_CASE("sequences that are swapped out come first") {
    CacheManager cache(keeping(4, 3));
    pass(cache, tokens_from(0, 9));
    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, tokens_from(100, 12));
    CHECK(cache.parts().host_tier.num_held(0) > 0);
    std::vector<SwapMove> moves;
    REQUIRE(cache.swap_out(sequence, 12, moves));
    CHECK(moves.size() == 3);
    CHECK(cache.parts().host_tier.num_held(0) == 0);
    // What was to be kept is not written over what was swapped out.
    CHECK(taken(cache).out.empty());
    const std::vector<const SequenceBlocks*> all{&sequence};
    cache.check_integrity(all);
}

TEST_CASE("what is written to outside of plans is not kept") {
    CacheManager cache(keeping(4, 8));
    pass(cache, tokens_from(0, 9));
    pass(cache, tokens_from(100, 16));
    cache.cancel_keeps();
    CHECK_FALSE(cache.has_tier_moves());
    CHECK(matched(cache, tokens_from(0, 9)) == 0);
}

TEST_CASE("a reset forgets contents in host memory too") {
    CacheManager cache(keeping(4, 8));
    pass(cache, tokens_from(0, 9));
    pass(cache, tokens_from(100, 16));
    taken(cache);
    cache.clear_unused();
    CHECK(matched(cache, tokens_from(0, 9)) == 0);
    CHECK(cache.detailed_stats().total.host_used == 0);
    cache.check_integrity({});
}

}  // namespace
}  // namespace nvllm
