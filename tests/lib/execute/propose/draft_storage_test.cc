// Which blocks of a target the layers of a draft lie in.
#include "lib/execute/propose/draft_storage.h"

#include <doctest/doctest.h>

#include "kernels/error.h"

namespace nvllm {
namespace {

CacheLayout group_of(int64_t window) {
    CacheLayout group;
    group.layers = {0};
    group.kv_heads = 1;
    group.head_dim = 8;
    group.window = window;
    return group;
}

TEST_CASE("a draft's layers lie where all that they attend to is kept") {
    const std::vector<CacheLayout> both = {group_of(64), group_of(0)};
    const auto places = [](const std::vector<CacheLayout>& target,
                           const std::vector<CacheLayout>& drafts) {
        return groups_of_target(target, drafts);
    };
    CHECK(places(both, {group_of(0), group_of(64), group_of(32)}) == std::vector<size_t>{1, 0, 1});
    CHECK(places({group_of(64)}, {group_of(64)}) == std::vector<size_t>{0});
    CHECK_THROWS_AS(places({group_of(64)}, {group_of(0)}), Error);
    CHECK_THROWS_AS(places({group_of(64)}, {group_of(128)}), Error);
    CacheLayout states = group_of(0);
    states.kind = CacheLayout::Kind::state;
    CHECK_THROWS_AS(places(both, {states}), Error);
    CHECK_THROWS_AS(places({states}, {group_of(0)}), Error);
}

TEST_CASE("drafts behind the last block have blocks of their own") {
    CHECK(tail_blocks(1, 16) == 1);
    CHECK(tail_blocks(16, 16) == 1);
    CHECK(tail_blocks(17, 16) == 2);
    CHECK(tail_blocks(5, 1) == 5);
    WorkerConfig config;
    config.num_blocks = {10, 20};
    config.max_num_seqs = 2;
    config.block_size = 4;
    DraftStorage storage({group_of(64), group_of(0)}, {group_of(0)}, config, 6);
    CHECK(storage.first_tail_block(1, 0) == 20);
    CHECK(storage.first_tail_block(1, 1) == 22);
    CHECK_THROWS_AS(storage.first_tail_block(1, 2), Error);
    CHECK(storage.layers()[0].keys.dim(0) == 24);
}

}  // namespace
}  // namespace nvllm
