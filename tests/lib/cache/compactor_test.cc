// Moving blocks below a target and changing the number of blocks.
#include "lib/cache/compaction.h"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <vector>

#include "kernels/error.h"
#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

std::vector<int32_t> just(int32_t number) { return {number}; }

TEST_CASE("used and cached blocks move below the target, and stay findable") {
    CacheManager cache(one_group(12));
    auto early = std::make_unique<SequenceBlocks>(cache, "", 1);
    SequenceBlocks late(cache, "", 2);
    {
        run_through(cache, *early, tokens_from(0, 24));
        run_through(cache, late, tokens_from(100, 10));
        SequenceBlocks gone(cache, "");
        run_through(cache, gone, tokens_from(200, 8));
    }
    cache.discard(*early);
    CHECK(cache.detailed_stats().total.fragmentation > 0.0);
    const Result<Compaction> compaction = cache.compact(just(5));
    REQUIRE(compaction.ok());
    CHECK(compaction->moves.size() == 5);
    CHECK(compaction->num_dropped == 0);
    std::set<BlockId> from;
    for (const BlockMove& move : compaction->moves) {
        CHECK(move.from >= 5);
        CHECK(move.to < 5);
        CHECK(from.insert(move.from).second);
    }
    REQUIRE(compaction->changes.size() == 3);
    for (const TableChange& change : compaction->changes) {
        CHECK(change.owner == 2);
        CHECK(late.table(0)[change.index] == change.block);
    }
    CHECK(matched(cache, tokens_from(200, 9)) == 8);
    CHECK(matched(cache, tokens_from(100, 10)) == 8);
    CHECK_FALSE(cache.resize(just(5)).has_value());
    CHECK(cache.counts(0).total == 5);
    CHECK_FALSE(cache.resize(just(20)).has_value());
    CHECK(cache.counts(0).free == 15);
    const std::vector<const SequenceBlocks*> all{early.get(), &late};
    cache.check_integrity(all);
    CHECK(cache.detailed_stats().compaction.moved_blocks == 5);
}

TEST_CASE("cached blocks that do not fit are dropped in the order of eviction") {
    for (const EvictionPolicy& policy : eviction_policies()) {
        CacheConfig config = one_group(8);
        config.eviction = policy.name;
        CacheManager cache(config);
        {
            SequenceBlocks gone(cache, "");
            run_through(cache, gone, tokens_from(0, 24));
        }
        const Result<Compaction> compaction = cache.compact(just(4));
        REQUIRE(compaction.ok());
        CHECK(compaction->num_dropped == 2);
        CHECK(matched(cache, tokens_from(0, 25)) == 16);
        CHECK(cache.detailed_stats().compaction.dropped_blocks == 2);
        cache.check_integrity({});
    }
}

TEST_CASE("a full pool has nothing to move; a smaller target is refused with the numbers") {
    CacheManager cache(one_group(4));
    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, tokens_from(0, 16));
    const Result<Compaction> all = cache.compact(just(4));
    REQUIRE(all.ok());
    CHECK(all->moves.empty());
    const Result<Compaction> less = cache.compact(just(3));
    REQUIRE_FALSE(less.ok());
    CHECK(less.fault().message.find("4 blocks of group 0 are used") != std::string::npos);
    CHECK(cache.resize(just(3)).has_value());
    CHECK(cache.resize(just(0)).has_value());
    CHECK(cache.counts(0).total == 4);
}

TEST_CASE("nothing moves while a plan is uncommitted; growing is always possible") {
    CacheManager cache(one_group(8));
    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, tokens_from(0, 16));
    cache.name_in_plan(sequence, 1);
    cache.name_in_plan(sequence, 2);
    cache.plan_committed(1);
    CHECK_FALSE(cache.compact(just(8)).ok());
    CHECK_FALSE(cache.resize(just(9)).has_value());
    cache.free(sequence);
    // Blocks that plan 2 names still cannot be cut off.
    CHECK(cache.resize(just(3)).has_value());
    cache.plan_committed(2);
    CHECK(cache.compact(just(3)).ok());
    CHECK_FALSE(cache.resize(just(3)).has_value());
    cache.check_integrity({});
}

TEST_CASE("entries that left the window name a block that there is") {
    CacheConfig config = one_group(24);
    config.groups.push_back({24, 6});
    CacheManager cache(config);
    SequenceBlocks sequence(cache, "", 3);
    run_through(cache, sequence, tokens_from(0, 42));
    const int32_t given_back = sequence.table(1).num_given_back();
    CHECK(given_back > 0);
    const Result<Compaction> compaction = cache.compact(std::vector<int32_t>{11, 3});
    REQUIRE(compaction.ok());
    CHECK_FALSE(cache.resize(std::vector<int32_t>{11, 3}).has_value());
    for (const BlockId block : sequence.table(1).blocks()) CHECK(block < 3);
    CHECK(sequence.table(1).num_given_back() == given_back);
    const std::vector<const SequenceBlocks*> all{&sequence};
    cache.check_integrity(all);
}

TEST_CASE("scattered free blocks ask for defragmentation") {
    CacheManager cache(one_group(8));
    std::vector<std::unique_ptr<SequenceBlocks>> sequences;
    for (int32_t i = 0; i < 8; ++i) {
        sequences.push_back(std::make_unique<SequenceBlocks>(cache, ""));
        run_through(cache, *sequences.back(), tokens_from(100 * i, 3));
    }
    CHECK_FALSE(cache.fragmentation() > 0.0);
    for (size_t i = 0; i < 8; i += 2) sequences[i].reset();
    CHECK(cache.detailed_stats().total.fragmentation == doctest::Approx(0.75));
    CHECK(cache.fragmentation() == cache.detailed_stats().total.fragmentation);
    CHECK(cache.fragmentation() > 0.7);
    CHECK_FALSE(cache.fragmentation() > 0.8);
    REQUIRE(cache.compact(just(4)).ok());
    CHECK_FALSE(cache.fragmentation() > 0.0);
}

}  // namespace
}  // namespace nvllm
