// Numbers of blocks by positions, with and without a window.
#include "lib/cache/cache_shape.h"

#include <doctest/doctest.h>

namespace nvllm {
namespace {

TEST_CASE("a group without a window reads and holds every block") {
    const std::vector<CacheGroupConfig> groups{{10, 0}};
    const CacheShape shape(4, groups);
    CHECK_FALSE(shape.has_windows());
    CHECK(shape.num_blocks_for(0) == 0);
    CHECK(shape.num_blocks_for(1) == 1);
    CHECK(shape.num_blocks_for(4) == 1);
    CHECK(shape.num_blocks_for(5) == 2);
    CHECK(shape.first_block_read(0, 100) == 0);
    CHECK(shape.max_blocks(0, 100, 8) == 25);
    CHECK(shape.admitted_size(0, 8, 100, 8) == 25);
}

TEST_CASE("a group with a window holds the blocks of one step at most") {
    const std::vector<CacheGroupConfig> groups{{10, 0}, {10, 5}};
    const CacheShape shape(4, groups);
    CHECK(shape.has_windows());
    CHECK(shape.window(1) == 5);
    CHECK(shape.first_block_read(1, 4) == 0);
    CHECK(shape.first_block_read(1, 8) == 1);
    CHECK(shape.max_blocks(1, 100, 8) == 4);
    CHECK(shape.max_blocks(1, 6, 8) == 2);
    CHECK(shape.admitted_size(1, 40, 100, 8) == shape.first_block_read(1, 40) + 4);
}

}  // namespace
}  // namespace nvllm
