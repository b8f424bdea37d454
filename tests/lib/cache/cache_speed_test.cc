// How long a block, and the look-up of a long prompt, take: printed, nothing is asserted about
// time.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "lib/cache/cache_manager.h"

namespace nvllm {
namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// The fastest of several: the machine has other work.
template <typename Work>
double fastest(int repetitions, Work work) {
    double best = 1e18;
    for (int i = 0; i < repetitions; ++i) {
        const Clock::time_point start = Clock::now();
        work();
        best = std::min(best, nanoseconds_since(start));
    }
    return best;
}

std::vector<int32_t> prompt_of(int32_t count) {
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < count; ++i) tokens.push_back(i * 7919 % 32000);
    return tokens;
}

TEST_CASE("time of hash and look-up of a prompt of 50,000 tokens") {
    constexpr int32_t kTokens = 50000;
    const std::vector<int32_t> tokens = prompt_of(kTokens);
    CacheManager cache({.block_size = 16, .groups = {{4096, 0}}});
    {
        SequenceBlocks sequence(cache, "");
        REQUIRE(cache.admit(sequence, cache.match(sequence, tokens), kTokens, 2048, 0));
        cache.commit(sequence, tokens, kTokens);
    }
    int32_t found = 0;
    const double both = fastest(50, [&] {
        SequenceBlocks sequence(cache, "");
        found = cache.match(sequence, tokens).num_tokens;
    });
    CHECK(found == kTokens - 16);
    SequenceBlocks known(cache, "");
    cache.match(known, tokens);
    const double look_up = fastest(50, [&] { found = cache.match(known, tokens).num_tokens; });
    MESSAGE("hash and look-up ", both / 1e6, " ms, look-up alone ", look_up / 1e6, " ms");
}

// One sequence takes all blocks and gives them back: free ones, then cached ones that are evicted.
TEST_CASE("time to take and give back a block, free or evicted") {
    constexpr int32_t kBlocks = 4096;
    for (const EvictionPolicy& policy : eviction_policies()) {
        CacheConfig config{.block_size = 16, .groups = {{kBlocks, 0}}};
        config.eviction = policy.name;
        CacheManager cache(config);
        const auto take_all = [&](SequenceBlocks& sequence) {
            std::vector<std::vector<BlockId>> added;
            cache.allocate(sequence, kBlocks * 16, added);
            cache.free(sequence);
        };
        SequenceBlocks sequence(cache, "");
        const double free = fastest(50, [&] { take_all(sequence); });
        double evicted = 1e18;
        for (int i = 0; i < 20; ++i) {
            SequenceBlocks other(cache, std::to_string(i));
            const std::vector<int32_t> tokens = prompt_of(kBlocks * 16);
            REQUIRE(cache.admit(other, {}, kBlocks * 16, 2048, 0));
            cache.commit(other, tokens, kBlocks * 16);
            cache.free(other);
            evicted = std::min(evicted, fastest(1, [&] { take_all(sequence); }));
        }
        MESSAGE(std::string(policy.name), ": free ", free / kBlocks, " ns a block, evicted ",
                evicted / kBlocks, " ns a block");
    }
}

TEST_CASE("time to announce a waiting prompt of 50,000 tokens") {
    constexpr int32_t kTokens = 50000;
    CacheConfig config{.block_size = 16, .groups = {{4096, 0}}};
    config.eviction = "cost";
    CacheManager cache(config);
    const std::vector<int32_t> tokens = prompt_of(kTokens);
    {
        SequenceBlocks sequence(cache, "");
        REQUIRE(cache.admit(sequence, cache.match(sequence, tokens), kTokens, 2048, 0));
        cache.commit(sequence, tokens, kTokens);
    }
    const double time = fastest(20, [&] {
        SequenceBlocks waiting(cache, "");
        cache.set_reuse_hint(waiting, tokens);
    });
    MESSAGE("hash, expect and forget ", time / 1e6, " ms");
}

}  // namespace
}  // namespace nvllm
