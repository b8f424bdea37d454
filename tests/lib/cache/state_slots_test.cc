// Running states, their checkpoints, and the copies between them.
#include "lib/cache/state_slots.h"

#include <doctest/doctest.h>

#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

// Group 0 is paged, group 1 holds states.
CacheConfig with_states(int32_t num_slots) {
    CacheConfig config = one_group(32);
    config.groups.push_back({num_slots, 0, 2, CacheGroupKind::state});
    return config;
}

struct Writes {
    std::vector<BlockMove> copies;
    std::vector<TableChange> changes;
};

// Plans and commits tokens up to `end` in one step.
Writes compute(CacheManager& cache, SequenceBlocks& sequence, const std::vector<int32_t>& tokens,
               int32_t first, int32_t end, uint64_t plan_number) {
    Writes writes;
    REQUIRE(cache.copy_on_write(sequence, first, writes.copies, writes.changes));
    std::vector<std::vector<BlockId>> added;
    REQUIRE(cache.allocate(sequence, end, added));
    cache.name_in_plan(sequence, plan_number);
    cache.plan_committed(plan_number);
    cache.commit(sequence, tokens, end);
    return writes;
}

int32_t num_matched(CacheManager& cache, const std::vector<int32_t>& tokens) {
    SequenceBlocks probe(cache, "");
    return cache.match(probe, tokens).num_tokens;
}

TEST_CASE("a sequence has one slot, whatever its length") {
    CacheManager cache(with_states(4));
    SequenceBlocks sequence(cache, "");
    const std::vector<int32_t> tokens = tokens_from(0, 30);
    REQUIRE(cache.admit(sequence, cache.match(sequence, tokens), 30, 64, 3));
    CHECK(sequence.table(1).size() == 1);
    const Writes writes = compute(cache, sequence, tokens, 0, 30, 1);
    CHECK(writes.copies.empty());
    CHECK(cache.counts(1).used == 1);
    CHECK(cache.shape().max_blocks(1, 1000, 64) == 2);
    CHECK(cache.detailed_stats().groups[1].waste_slots == 0);
}

TEST_CASE("a match ends at the last checkpoint, not at the last cached block") {
    CacheManager cache(with_states(4));
    const std::vector<int32_t> tokens = tokens_from(0, 18);
    {
        SequenceBlocks sequence(cache, "", 5);
        REQUIRE(cache.admit(sequence, {}, 18, 64, 0));
        CHECK(compute(cache, sequence, tokens, 0, 8, 1).copies.empty());
        const BlockId before = sequence.table(1)[0];
        const Writes writes = compute(cache, sequence, tokens, 8, 18, 2);
        const BlockId now = sequence.table(1)[0];
        CHECK(writes.copies == std::vector<BlockMove>{{1, before, now}});
        CHECK(writes.changes == std::vector<TableChange>{{5, 1, 0, now}});
        CHECK(sequence.num_cached_blocks() == 4);
    }
    CHECK(num_matched(cache, tokens) == 8);
    CHECK(num_matched(cache, tokens_from(0, 8)) == 0);
    CHECK(cache.counts(1).cached == 1);
}

TEST_CASE("states are kept at multiples of an interval, and where the caller says so") {
    CacheConfig config = with_states(8);
    config.checkpoint_interval = 7;  // two blocks of four
    CacheManager cache(config);
    CHECK(cache.checkpoint_interval() == 8);
    const std::vector<int32_t> tokens = tokens_from(0, 30);
    SequenceBlocks sequence(cache, "");
    REQUIRE(cache.admit(sequence, {}, 30, 64, 0));
    for (int32_t end = 4; end <= 24; end += 4) {
        compute(cache, sequence, tokens, end - 4, end, static_cast<uint64_t>(end));
    }
    CHECK(cache.counts(1).cached == 2);  // at 8 and 16
    Writes writes;
    REQUIRE(cache.copy_on_write(sequence, 24, writes.copies, writes.changes));
    CHECK(writes.copies.size() == 1);
    compute(cache, sequence, tokens, 24, 28, 28);
    Writes kept;
    REQUIRE(cache.copy_on_write(sequence, 28, kept.copies, kept.changes, true));
    CHECK(kept.copies.size() == 1);
    CHECK(num_matched(cache, tokens) == 28);
}

TEST_CASE("an admitted sequence copies the checkpoint to its own slot before it writes") {
    CacheManager cache(with_states(4));
    const std::vector<int32_t> tokens = tokens_from(0, 18);
    SequenceBlocks first(cache, "");
    REQUIRE(cache.admit(first, {}, 18, 64, 0));
    compute(cache, first, tokens, 0, 8, 1);
    compute(cache, first, tokens, 8, 18, 2);
    cache.free(first);
    SequenceBlocks second(cache, "");
    REQUIRE(cache.admit(second, cache.match(second, tokens), 18, 64, 0));
    CHECK(cache.counts(1).used == 2);
    const BlockId own = second.table(1)[0];
    const Writes writes = compute(cache, second, tokens, 8, 18, 3);
    REQUIRE(writes.copies.size() == 1);
    CHECK(writes.copies[0].to == own);
    CHECK(writes.changes.empty());
    CHECK(cache.counts(1).used == 1);
    CHECK(cache.counts(1).cached == 1);
}

TEST_CASE("a checkpoint of a block that is committed later is inserted with it") {
    CacheManager cache(with_states(4));
    const std::vector<int32_t> tokens = tokens_from(0, 9);
    SequenceBlocks sequence(cache, "");
    REQUIRE(cache.admit(sequence, {}, 9, 64, 0));
    Writes writes;
    // Two plans in flight: the second begins at a block boundary.
    REQUIRE(cache.copy_on_write(sequence, 0, writes.copies, writes.changes));
    cache.name_in_plan(sequence, 1);
    REQUIRE(cache.copy_on_write(sequence, 4, writes.copies, writes.changes));
    CHECK(writes.copies.size() == 1);
    cache.name_in_plan(sequence, 2);
    CHECK(num_matched(cache, tokens) == 0);
    cache.plan_committed(1);
    cache.commit(sequence, tokens, 4);
    CHECK(num_matched(cache, tokens) == 4);
    // The second plan still reads the slot.
    CHECK(cache.counts(1).used == 2);
    cache.plan_committed(2);
    CHECK(cache.counts(1).used == 1);
    CHECK(cache.counts(1).cached == 1);
}

TEST_CASE("a fork shares the state until one of both writes") {
    CacheManager cache(with_states(2));
    const std::vector<int32_t> tokens = tokens_from(0, 6);
    SequenceBlocks parent(cache, "");
    SequenceBlocks child(cache, "", 9);
    run_through(cache, parent, tokens);
    cache.fork(child, parent);
    CHECK(child.table(1)[0] == parent.table(1)[0]);
    Writes writes;
    REQUIRE(cache.copy_on_write(child, 6, writes.copies, writes.changes));
    CHECK(child.table(1)[0] != parent.table(1)[0]);
    CHECK(writes.copies.size() == 2);
    CHECK(writes.copies[1] == BlockMove{1, parent.table(1)[0], child.table(1)[0]});
    // No slot is left for a second fork.
    SequenceBlocks other(cache, "");
    cache.fork(other, parent);
    CHECK_FALSE(cache.copy_on_write(other, 6, writes.copies, writes.changes));
}

TEST_CASE("checkpoints are evicted for running states, and a match ends earlier then") {
    CacheManager cache(with_states(3));
    const std::vector<int32_t> tokens = tokens_from(0, 13);
    {
        SequenceBlocks sequence(cache, "");
        REQUIRE(cache.admit(sequence, {}, 13, 64, 0));
        for (int32_t first = 0; first < 12; first += 4) {
            compute(cache, sequence, tokens, first, first + 4, static_cast<uint64_t>(first + 1));
        }
    }
    CHECK(cache.counts(1).cached == 2);
    CHECK(num_matched(cache, tokens) == 8);
    SequenceBlocks one(cache, "other");
    REQUIRE(cache.admit(one, {}, 4, 64, 0));
    SequenceBlocks two(cache, "other");
    REQUIRE(cache.admit(two, {}, 4, 64, 0));
    CHECK(cache.stats().blocks.evictions == 1);
    CHECK(num_matched(cache, tokens) == 8);
    SequenceBlocks three(cache, "other");
    REQUIRE(cache.admit(three, {}, 4, 64, 0));
    CHECK(num_matched(cache, tokens) == 0);
}

TEST_CASE("a swapped out state comes back in a slot of its own") {
    CacheConfig config = with_states(3);
    config.groups[0].num_host_blocks = 8;
    CacheManager cache(config);
    const std::vector<int32_t> tokens = tokens_from(0, 6);
    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, tokens);
    const BlockId slot = sequence.table(1)[0];
    std::vector<SwapMove> moves;
    REQUIRE(cache.swap_out(sequence, 6, moves));
    REQUIRE(moves.size() == 3);
    CHECK(moves[2].group == 1);
    CHECK(moves[2].device_block == slot);
    CHECK(cache.counts(1).used == 0);
    moves.clear();
    REQUIRE(cache.swap_in(sequence, 3, moves));
    CHECK(sequence.table(1).size() == 1);
    CHECK(moves.back().group == 1);
    CHECK(moves.back().device_block == sequence.table(1)[0]);
}

TEST_CASE("compaction moves running states and checkpoints") {
    CacheManager cache(with_states(8));
    const std::vector<int32_t> tokens = tokens_from(0, 9);
    std::vector<SequenceBlocks> others;
    for (uint64_t i = 0; i < 5; ++i) {
        others.emplace_back(cache, std::to_string(i));
        REQUIRE(cache.admit(others.back(), {}, 1, 64, 0));
    }
    SequenceBlocks sequence(cache, "");
    REQUIRE(cache.admit(sequence, {}, 9, 64, 0));
    compute(cache, sequence, tokens, 0, 4, 1);
    compute(cache, sequence, tokens, 4, 9, 2);
    others.clear();
    const std::vector<int32_t> targets{32, 2};
    REQUIRE(cache.compact(targets).ok());
    CHECK(sequence.table(1)[0] < 2);
    CHECK_FALSE(cache.resize(targets).has_value());
    CHECK(num_matched(cache, tokens) == 4);
    const SequenceBlocks* const all[] = {&sequence};
    cache.check_integrity(all);
}

TEST_CASE("a group of states has no window") {
    CacheConfig config = one_group(8);
    config.groups.push_back({4, 16, 0, CacheGroupKind::state});
    CHECK_THROWS_AS(CacheManager{config}, Error);
}

}  // namespace
}  // namespace nvllm
