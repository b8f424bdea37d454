// Blocks that wait for the commit of a plan.
#include "lib/cache/deferred_free.h"

#include <doctest/doctest.h>

#include <vector>

namespace nvllm {
namespace {

struct Freed {
    std::vector<int32_t> blocks;
    std::vector<int32_t> host_blocks;

    void commit(DeferredFree& deferred, uint64_t plan_number) {
        deferred.commit(
            plan_number, [&](int32_t, int32_t block) { blocks.push_back(block); },
            [&](int32_t, int32_t block) { host_blocks.push_back(block); });
    }
};

TEST_CASE("a block is freed with the last plan that named its sequence") {
    DeferredFree deferred;
    deferred.name_plan(1);
    deferred.name_plan(2);
    CHECK_FALSE(deferred.all_committed());
    deferred.add(2, 0, 7);
    deferred.add(1, 0, 5);
    deferred.add_host(2, 0, 3);
    Freed freed;
    freed.commit(deferred, 1);
    CHECK(freed.blocks == std::vector{5});
    CHECK(freed.host_blocks.empty());
    CHECK(deferred.has_blocks());
    freed.commit(deferred, 2);
    CHECK(freed.blocks == std::vector{5, 7});
    CHECK(freed.host_blocks == std::vector{3});
    CHECK_FALSE(deferred.has_blocks());
    CHECK(deferred.all_committed());
}

TEST_CASE("blocks are freed in the order in which they were added") {
    DeferredFree deferred;
    for (const int32_t block : {4, 9, 2, 6}) deferred.add(block == 9 ? 5 : 3, 0, block);
    Freed freed;
    freed.commit(deferred, 3);
    CHECK(freed.blocks == std::vector{4, 2, 6});
    CHECK(deferred.blocks().size() == 1);
}

TEST_CASE("plans are committed in their order") {
    DeferredFree deferred;
    Freed freed;
    freed.commit(deferred, 4);
    CHECK(deferred.is_committed(4));
    CHECK_FALSE(deferred.is_committed(5));
    CHECK(deferred.last_plan() == 4);
    CHECK_THROWS_AS(freed.commit(deferred, 3), Error);
}

}  // namespace
}  // namespace nvllm
