// The block pool: order of reuse, counters, and long random runs against a plain model of it.
#include "lib/cache/block_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "kernels/error.h"

namespace nvllm {
namespace {

TEST_CASE("a pool gives each block once and then none") {
    BlockPool pool(3);
    std::vector<BlockId> blocks;
    while (auto taken = pool.take()) {
        CHECK_FALSE(taken->was_cached);
        blocks.push_back(taken->block);
    }
    CHECK(blocks == std::vector<BlockId>{0, 1, 2});
    CHECK(pool.num_used() == 3);
    CHECK(pool.num_available() == 0);
    pool.check_integrity();
}

TEST_CASE("free blocks are reused before cached ones, and those longest unused first") {
    BlockPool pool(4);
    for (int i = 0; i < 4; ++i) pool.take();
    for (const BlockId block : {1, 2}) pool.mark_cached(block);
    for (const BlockId block : {2, 0, 1, 3}) pool.release(block);
    CHECK(pool.num_cached() == 2);
    CHECK(pool.num_free() == 2);
    std::vector<BlockId> order;
    for (int i = 0; i < 4; ++i) order.push_back(pool.take()->block);
    CHECK(order == std::vector<BlockId>{3, 0, 2, 1});
    CHECK(pool.num_evictions() == 2);
}

TEST_CASE("a cached block that is shared again is not reused") {
    BlockPool pool(2);
    const BlockId block = pool.take()->block;
    pool.mark_cached(block);
    pool.release(block);
    pool.share(block);
    CHECK(pool.references(block) == 1);
    CHECK(pool.take()->block != block);
    CHECK_FALSE(pool.take().has_value());
    CHECK(pool.num_evictions() == 0);
}

TEST_CASE("forgetting makes an unused block free and leaves a used one used") {
    BlockPool pool(2);
    const BlockId unused = pool.take()->block;
    const BlockId used = pool.take()->block;
    pool.mark_cached(unused);
    pool.mark_cached(used);
    pool.release(unused);
    pool.forget(unused);
    pool.forget(used);
    CHECK(pool.num_free() == 1);
    CHECK(pool.num_cached() == 0);
    CHECK(pool.num_used() == 1);
    CHECK_FALSE(pool.is_cached(used));
    pool.check_integrity();
}

TEST_CASE("releasing an unused block is our mistake") {
    BlockPool pool(1);
    CHECK_THROWS_AS(pool.release(0), Error);
    CHECK_THROWS_AS(pool.mark_cached(0), Error);
    CHECK_THROWS_AS(BlockPool(0), Error);
}

// The same pool with plain containers.
struct PoolModel {
    std::vector<int> references;
    std::vector<bool> cached;
    std::deque<BlockId> free;  // the next to be reused first
    std::deque<BlockId> evictable;

    explicit PoolModel(int size) : references(size, 0), cached(size, false) {
        for (int i = 0; i < size; ++i) free.push_back(i);
    }
    void unlist(BlockId block) {
        std::erase(free, block);
        std::erase(evictable, block);
    }
    void list(BlockId block) {
        if (cached[block])
            evictable.push_back(block);
        else
            free.push_front(block);
    }
};

// One random operation on both. Returns false when the pool answers otherwise than the model.
bool step(BlockPool& pool, PoolModel& model, std::mt19937& random) {
    const auto block = static_cast<BlockId>(random() % model.references.size());
    switch (random() % 6) {
        case 0:
        case 1: {
            const auto taken = pool.take();
            std::deque<BlockId>& source = model.free.empty() ? model.evictable : model.free;
            if (source.empty()) return !taken.has_value();
            const bool same = taken && taken->block == source.front() &&
                              taken->was_cached == model.cached[source.front()];
            model.references[source.front()] = 1;
            model.cached[source.front()] = false;
            source.pop_front();
            return same;
        }
        case 2:
            if (model.references[block] == 0 && !model.cached[block]) return true;
            pool.share(block);
            if (model.references[block]++ == 0) model.unlist(block);
            return true;
        case 3:
            if (model.references[block] == 0) return true;
            pool.release(block);
            if (--model.references[block] == 0) model.list(block);
            return true;
        case 4:
            if (model.references[block] == 0) return true;
            pool.mark_cached(block);
            model.cached[block] = true;
            return true;
        default:
            pool.forget(block);
            if (model.cached[block]) {
                model.cached[block] = false;
                if (model.references[block] == 0) {
                    model.unlist(block);
                    model.list(block);
                }
            }
            return true;
    }
}

TEST_CASE("200,000 random operations do what a plain model does") {
    for (const int size : {1, 2, 7, 40}) {
        std::mt19937 random(static_cast<unsigned>(size));
        BlockPool pool(size);
        PoolModel model(size);
        bool same = true;
        for (int i = 0; i < 50000 && same; ++i) {
            same = step(pool, model, random);
            same = same && pool.num_free() == static_cast<int>(model.free.size());
            same = same && pool.num_cached() == static_cast<int>(model.evictable.size());
            same = same && pool.num_used() + pool.num_cached() + pool.num_free() == size;
            if (i % 64 == 0) pool.check_integrity();
        }
        CHECK(same);
    }
}

}  // namespace
}  // namespace nvllm
