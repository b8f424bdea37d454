// Forks: shared blocks, copies on write, and blocks inserted into the prefix cache.
#include <doctest/doctest.h>

#include <vector>

#include "kernels/error.h"
#include "lib/cache/cache_inspection.h"
#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

TEST_CASE("a fork takes no block until one of the two writes") {
    CacheManager cache(one_group(8));
    const std::vector<int32_t> tokens = tokens_from(0, 10);
    SequenceBlocks parent(cache, "", 1);
    SequenceBlocks child(cache, "", 2);
    run_through(cache, parent, tokens);
    cache.fork(child, parent);
    CHECK(cache.counts(0).used == 3);
    CHECK(child.table(0).blocks() == parent.table(0).blocks());
    CHECK(child.num_cached_blocks() == 2);
    const BlockId shared = parent.table(0)[2];
    CHECK(block_owners(cache.parts().tables, 0, shared).size() == 2);

    std::vector<BlockMove> copies;
    std::vector<TableChange> changes;
    REQUIRE(cache.copy_on_write(child, 10, copies, changes));
    REQUIRE(copies.size() == 1);
    CHECK(copies[0] == BlockMove{0, shared, child.table(0)[2]});
    REQUIRE(changes.size() == 1);
    CHECK(changes[0] == TableChange{2, 0, 2, child.table(0)[2]});
    CHECK(block_owners(cache.parts().tables, 0, shared) == std::vector<uint64_t>{1});
    // Both have a last block of their own now.
    REQUIRE(cache.copy_on_write(parent, 10, copies, changes));
    CHECK(copies.size() == 1);
    const std::vector<const SequenceBlocks*> all{&parent, &child};
    cache.check_integrity(all);
}

TEST_CASE("at a block's border nothing is copied") {
    CacheManager cache(one_group(8));
    SequenceBlocks parent(cache, "");
    SequenceBlocks child(cache, "");
    run_through(cache, parent, tokens_from(0, 8));
    std::vector<std::vector<BlockId>> added;
    REQUIRE(cache.allocate(parent, 12, added));
    cache.fork(child, parent, 8);
    CHECK(child.table(0).size() == 2);
    cache.free(child);
    // The block that was taken ahead is shared as well, and replaced without a copy.
    cache.fork(child, parent);
    CHECK(child.table(0).size() == 3);
    std::vector<BlockMove> copies;
    std::vector<TableChange> changes;
    REQUIRE(cache.copy_on_write(child, 8, copies, changes));
    CHECK(copies.empty());
    CHECK(changes.size() == 1);
    CHECK(child.table(0)[2] != parent.table(0)[2]);
}

TEST_CASE("without a block for the copy nothing changes, in no group") {
    CacheConfig config = one_group(8);
    config.groups.push_back({3, 0});
    CacheManager cache(config);
    SequenceBlocks parent(cache, "");
    SequenceBlocks child(cache, "");
    run_through(cache, parent, tokens_from(0, 10));
    cache.fork(child, parent);
    std::vector<BlockMove> copies;
    std::vector<TableChange> changes;
    CHECK_FALSE(cache.copy_on_write(child, 10, copies, changes));
    CHECK(copies.empty());
    CHECK(changes.empty());
    CHECK(child.table(0).blocks() == parent.table(0).blocks());
    // The other one needs none once it is alone.
    cache.free(parent);
    CHECK(cache.copy_on_write(child, 10, copies, changes));
    CHECK(copies.empty());
}

TEST_CASE("parent and child insert shared blocks once, and either may be discarded") {
    for (const bool parent_first : {true, false}) {
        CacheManager cache(one_group(8));
        const std::vector<int32_t> tokens = tokens_from(0, 12);
        SequenceBlocks parent(cache, "");
        SequenceBlocks child(cache, "");
        REQUIRE(cache.admit(parent, cache.match(parent, tokens), 12, 64, 0));
        cache.commit(parent, tokens, 4);
        // Positions 4 to 11 are in flight when the child comes.
        cache.fork(child, parent);
        cache.commit(parent, tokens, 12);
        cache.commit(child, tokens, 12);
        CHECK(matched(cache, tokens_from(0, 13)) == 12);
        cache.discard(parent_first ? parent : child);
        // The first block was inserted by the parent alone.
        CHECK(matched(cache, tokens_from(0, 13)) == (parent_first ? 0 : 4));
        cache.discard(parent_first ? child : parent);
        CHECK(matched(cache, tokens_from(0, 13)) == 0);
        cache.check_integrity({});
    }
}

TEST_CASE("a fork of a sequence with a window shares what the window still reads") {
    CacheManager cache(one_group(16, 6));
    const std::vector<int32_t> tokens = tokens_from(0, 18);
    SequenceBlocks parent(cache, "");
    SequenceBlocks child(cache, "");
    run_through(cache, parent, tokens);
    cache.fork(child, parent);
    CHECK(child.table(0).num_given_back() == parent.table(0).num_given_back());
    CHECK(child.table(0).num_held() == parent.table(0).num_held());
    cache.free(parent);
    const std::vector<const SequenceBlocks*> all{&child};
    cache.check_integrity(all);
}

TEST_CASE("forking onto blocks, or writing to a cached block, is our mistake") {
    CacheManager cache(one_group(8));
    SequenceBlocks parent(cache, "");
    SequenceBlocks child(cache, "");
    run_through(cache, parent, tokens_from(0, 10));
    std::vector<BlockMove> copies;
    std::vector<TableChange> changes;
    CHECK_THROWS_AS(cache.copy_on_write(parent, 7, copies, changes), Error);
    CHECK_THROWS_AS(cache.fork(child, parent, 4), Error);
    cache.fork(child, parent);
    CHECK_THROWS_AS(cache.fork(child, parent), Error);
}

}  // namespace
}  // namespace nvllm
