// Where steps of a prompt end so that states can be kept.
#include "lib/schedule/planning/checkpoints.h"

#include <doctest/doctest.h>

#include <vector>

namespace nvllm {
namespace {

CacheConfig with_states(int32_t borders) {
    CacheConfig config;
    config.block_size = 4;
    config.groups = {{32, 0, 0, CacheGroupKind::paged_kv}, {8, 0, 0, CacheGroupKind::state}};
    config.checkpoint_interval = 64;
    config.checkpoint_borders = borders;
    return config;
}

Sequence prompt_of(int32_t length, std::vector<int32_t> borders) {
    Request request;
    request.prompt_token_ids.assign(static_cast<size_t>(length), 5);
    request.message_borders = std::move(borders);
    return Sequence::waiting(request, 1, 0);
}

// Where the steps of a prompt end that may have `most` tokens each.
std::vector<int32_t> ends(const CacheManager& cache, const Sequence& sequence, int32_t most) {
    std::vector<int32_t> ends;
    for (int32_t first = 0; first < sequence.num_prompt_tokens;) {
        const int32_t granted = std::min(most, sequence.num_prompt_tokens - first);
        first += count_to_checkpoint(cache, sequence, first, granted);
        ends.push_back(first);
    }
    return ends;
}

TEST_CASE("a prompt's steps end at its first and last message borders, and before its end") {
    const Sequence sequence = prompt_of(60, {10, 21, 22, 35, 50, 58});
    CHECK(ends(CacheManager(with_states(0)), sequence, 100) == std::vector<int32_t>{56, 60});
    CHECK(ends(CacheManager(with_states(1)), sequence, 100) == std::vector<int32_t>{8, 56, 60});
    // The last one lies behind the prompt's own.
    CHECK(ends(CacheManager(with_states(3)), sequence, 100) == std::vector<int32_t>{8, 48, 56, 60});
    CHECK(ends(CacheManager(with_states(9)), sequence, 100) ==
          std::vector<int32_t>{8, 20, 32, 48, 56, 60});
    CHECK(ends(CacheManager(with_states(1)), prompt_of(60, {}), 100) ==
          std::vector<int32_t>{56, 60});
}

TEST_CASE("states at message borders are kept, and no others between") {
    const CacheManager cache(with_states(2));
    const Sequence sequence = prompt_of(60, {10, 30, 50});
    for (int32_t next = 4; next <= 60; next += 4) {
        CAPTURE(next);
        const bool is_kept = next == 8 || next == 48 || next == 56;
        CHECK((state_use(cache, sequence, next) == StateUse::keep) == is_kept);
    }
}

TEST_CASE("without a cache of prefixes steps end where they like") {
    CacheConfig config = with_states(4);
    config.enable_prefix_caching = false;
    CHECK(ends(CacheManager(config), prompt_of(60, {10, 30}), 100) == std::vector<int32_t>{60});
}

}  // namespace
}  // namespace nvllm
