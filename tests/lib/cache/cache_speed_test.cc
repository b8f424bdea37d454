// How long a block, and the look-up of a long prompt, take: printed, nothing is asserted about
// time.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
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
        SequenceCache sequence(cache, "");
        REQUIRE(cache.admit(sequence, cache.match(sequence, tokens), kTokens, 2048, 0));
        cache.commit(sequence, tokens, kTokens);
    }
    int32_t found = 0;
    const double both = fastest(50, [&] {
        SequenceCache sequence(cache, "");
        found = cache.match(sequence, tokens).num_tokens;
    });
    CHECK(found == kTokens - 16);
    SequenceCache known(cache, "");
    cache.match(known, tokens);
    const double look_up = fastest(50, [&] { found = cache.match(known, tokens).num_tokens; });
    MESSAGE("hash and look-up ", both / 1e6, " ms, look-up alone ", look_up / 1e6, " ms");
}

TEST_CASE("time to take and give back a block") {
    constexpr int32_t kBlocks = 4096;
    CacheManager cache({.block_size = 16, .groups = {{kBlocks, 0}}});
    SequenceCache sequence(cache, "");
    const double time = fastest(50, [&] {
        std::vector<std::vector<BlockId>> added;
        cache.allocate(sequence, kBlocks * 16, added);
        cache.release(sequence);
    });
    MESSAGE("take and give back ", time / kBlocks, " ns a block");
}

}  // namespace
}  // namespace nvllm
