// Eviction policies: the table, each row's order, the cost's shape, and the queue against a plain
// model.
#include "lib/cache/eviction.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "lib/cache/cache_manager.h"
#include "lib/cache/eviction_queue.h"
#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

CacheConfig small(const std::string& eviction, int32_t num_blocks) {
    CacheConfig config = one_group(num_blocks);
    config.eviction = eviction;
    return config;
}

// Computes a sequence and lets it go.
void use(CacheManager& cache, const std::vector<int32_t>& tokens) {
    SequenceBlocks sequence(cache, "");
    run_through(cache, sequence, tokens);
}

TEST_CASE("rows are found by name, and others are refused with the names there are") {
    for (const EvictionPolicy& policy : eviction_policies()) {
        CHECK(&find_eviction(policy.name) == &policy);
    }
    try {
        find_eviction("fifo");
        FAIL("an unknown policy was found");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_config);
        CHECK(std::string(error.what()).find("lru, lfu, size, cost") != std::string::npos);
    }
    CHECK_THROWS_AS(CacheManager(small("fifo", 4)), Error);
}

TEST_CASE("lru: the longest unused goes, however often it was used") {
    CacheManager cache(small("lru", 4));
    for (int i = 0; i < 3; ++i) use(cache, tokens_from(0, 5));
    use(cache, tokens_from(100, 5));
    use(cache, tokens_from(200, 9));
    use(cache, tokens_from(300, 9));
    CHECK(matched(cache, tokens_from(0, 5)) == 0);
}

TEST_CASE("lfu: what was found most often stays") {
    CacheManager cache(small("lfu", 4));
    for (int i = 0; i < 3; ++i) use(cache, tokens_from(0, 5));
    for (int32_t first = 100; first < 1000; first += 100) use(cache, tokens_from(first, 9));
    CHECK(matched(cache, tokens_from(0, 5)) == 4);
}

TEST_CASE("size: the longest chain is cut from its end") {
    CacheManager cache(small("size", 6));
    use(cache, tokens_from(0, 17));   // 4 full blocks
    use(cache, tokens_from(100, 5));  // 1
    use(cache, tokens_from(200, 9));  // needs 3: one is free, so two of the chain of 4 go
    CHECK(matched(cache, tokens_from(0, 17)) == 8);
    CHECK(matched(cache, tokens_from(100, 5)) == 4);
}

TEST_CASE("cost: recomputing costs more at depth, up to the window") {
    const EvictionCosts costs{.per_token = 2.0, .per_token_and_position = 0.5};
    BlockUse use{.depth = 0, .block_size = 4};
    CHECK(recompute_cost(use, costs) == doctest::Approx(4 * (2.0 + 0.5 * 2)));
    use.depth = 10;
    CHECK(recompute_cost(use, costs) == doctest::Approx(4 * (2.0 + 0.5 * 42)));
    use.window = 8;
    CHECK(recompute_cost(use, costs) == doctest::Approx(4 * (2.0 + 0.5 * 8)));
}

TEST_CASE("cost: of contents used alike, the one that is dear to compute stays") {
    CacheConfig config = small("cost", 7);
    config.eviction_costs.per_token_and_position = 10.0;
    CacheManager cache(config);
    use(cache, tokens_from(0, 17));   // 4 full blocks
    use(cache, tokens_from(100, 9));  // 2, used later but cheap
    use(cache, tokens_from(200, 9));
    CHECK(matched(cache, tokens_from(0, 17)) == 16);
    CHECK(matched(cache, tokens_from(100, 9)) == 0);
}

TEST_CASE("cost: a block is kept as long as a cached one goes on from it") {
    CacheConfig config = small("cost", 4);
    config.eviction_costs.per_token_and_position = 10.0;  // the first block is by far the cheapest
    CacheManager cache(config);
    use(cache, tokens_from(0, 16));
    use(cache, tokens_from(100, 4));
    CHECK(matched(cache, tokens_from(0, 17)) == 12);
    use(cache, tokens_from(200, 8));
    CHECK(matched(cache, tokens_from(0, 17)) >= 4);
}

TEST_CASE("cost: what a waiting sequence will ask for stays until it has come or gone") {
    for (const bool announced : {true, false}) {
        CacheConfig config = small("cost", 4);
        config.eviction_costs.half_life_in_capacities = 0.25;
        CacheManager cache(config);
        use(cache, tokens_from(0, 8));
        SequenceBlocks waiting(cache, "");
        if (announced) cache.set_reuse_hint(waiting, tokens_from(0, 9));
        for (int32_t first = 100; first < 600; first += 100) use(cache, tokens_from(first, 8));
        CHECK(matched(cache, tokens_from(0, 9)) == (announced ? 8 : 0));
        const std::vector<const SequenceBlocks*> all{&waiting};
        cache.check_integrity(all);
        cache.set_reuse_hint(waiting, {});
        cache.check_integrity(all);
        use(cache, tokens_from(600, 16));
        CHECK(matched(cache, tokens_from(0, 9)) == 0);
    }
}

TEST_CASE("cost: what is computed while a sequence waits for it is expected too") {
    CacheConfig config = small("cost", 4);
    config.eviction_costs.half_life_in_capacities = 0.25;
    CacheManager cache(config);
    SequenceBlocks waiting(cache, "");
    cache.set_reuse_hint(waiting, tokens_from(0, 9));
    use(cache, tokens_from(0, 8));
    for (int32_t first = 100; first < 600; first += 100) use(cache, tokens_from(first, 8));
    CHECK(matched(cache, tokens_from(0, 9)) == 8);
    const std::vector<int32_t> tokens = tokens_from(0, 9);
    REQUIRE(cache.admit(waiting, cache.match(waiting, tokens), 9, 64, 0));
    const std::vector<const SequenceBlocks*> all{&waiting};
    cache.check_integrity(all);
    cache.free(waiting);
    use(cache, tokens_from(600, 16));
    CHECK(matched(cache, tokens) == 0);
}

TEST_CASE("a sequence may wait for nothing, twice, and go while it waits") {
    CacheManager cache(small("cost", 4));
    {
        SequenceBlocks waiting(cache, "");
        cache.set_reuse_hint(waiting, {});
        cache.set_reuse_hint(waiting, tokens_from(0, 3));
        cache.set_reuse_hint(waiting, tokens_from(0, 20));
        cache.set_reuse_hint(waiting, tokens_from(0, 20));
        SequenceBlocks moved(std::move(waiting));
        use(cache, tokens_from(0, 8));
        const std::vector<const SequenceBlocks*> all{&moved};
        cache.check_integrity(all);
    }
    cache.check_integrity({});
}

TEST_CASE("a content is kept once") {
    for (const EvictionPolicy& policy : eviction_policies()) {
        CacheManager cache(small(policy.name, 8));
        const std::vector<int32_t> tokens = tokens_from(0, 8);
        {
            SequenceBlocks one(cache, "");
            SequenceBlocks two(cache, "");
            // Both come before either has computed anything.
            REQUIRE(cache.admit(one, cache.match(one, tokens), 8, 64, 0));
            REQUIRE(cache.admit(two, cache.match(two, tokens), 8, 64, 0));
            cache.commit(one, tokens, 8);
            cache.free(one);
            CHECK(cache.stats().blocks.cached == 2);
            cache.commit(two, tokens, 8);
            CHECK(cache.stats().blocks.cached == 0);
            CHECK(cache.stats().blocks.free == 6);
        }
        CHECK(cache.stats().blocks.cached == 2);
        CHECK(cache.detailed_stats().num_duplicates_freed == 2);
        cache.check_integrity({});
    }
}

// The queue with a plain list.
struct QueueModel {
    struct Entry {
        BlockId block;
        EvictionRank rank;
        int number;
    };
    std::vector<Entry> entries;

    Entry* find(BlockId block) {
        const auto found = std::ranges::find(entries, block, &Entry::block);
        return found == entries.end() ? nullptr : &*found;
    }
    std::optional<BlockId> first(double decay) const {
        const auto key = [&](const Entry& entry) {
            const double value = entry.rank.value - (entry.rank.expected ? 0.0 : decay);
            return std::tuple(entry.rank.has_children, value, entry.number);
        };
        const auto least = std::ranges::min_element(entries, {}, key);
        if (least == entries.end()) return std::nullopt;
        return least->block;
    }
};

TEST_CASE("100,000 random operations on the queue do what a plain list does") {
    std::mt19937 random(17);
    EvictionQueue queue;
    QueueModel model;
    bool same = true;
    for (int i = 0; i < 100000 && same; ++i) {
        const auto block = static_cast<BlockId>(random() % 60);
        const EvictionRank rank{random() % 3 == 0, random() % 3 == 0,
                                static_cast<double>(random() % 8)};
        QueueModel::Entry* known = model.find(block);
        same = queue.contains(block) == (known != nullptr);
        if (known == nullptr) {
            queue.push(block, rank);
            model.entries.push_back({block, rank, i});
        } else if (random() % 3 == 0) {
            queue.remove(block);
            std::erase_if(model.entries, [&](const auto& entry) { return entry.block == block; });
        } else if (const auto other = static_cast<BlockId>(random() % 60); !queue.contains(other)) {
            queue.replace(block, other);
            known->block = other;
        } else {
            queue.rerank(block, rank);
            known->rank = rank;
        }
        const double decay = static_cast<double>(random() % 5) + 0.5;
        same = same && queue.first(decay) == model.first(decay);
        if (i % 100 == 0) queue.check_integrity();
    }
    CHECK(same);
}

}  // namespace
}  // namespace nvllm
