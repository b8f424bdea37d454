// How one pool is divided among the caches of several models.
#include "lib/server/models/memory_broker.h"

#include <doctest/doctest.h>

#include <numeric>
#include <random>

using namespace nvllm::server;

namespace {

using Shares = std::vector<uint64_t>;

Shares share(uint64_t pool, std::vector<CacheRequest> claims) { return share_pool(pool, claims); }

}  // namespace

TEST_CASE("memory broker: one model has what it was planned for, within the pool") {
    CHECK(share(100, {{10, 0, 80}}) == Shares{80});
    CHECK(share(60, {{10, 0, 80}}) == Shares{60});
    CHECK(share(100, {}).empty());
}

TEST_CASE("memory broker: models that need nothing divide the pool evenly") {
    CHECK(share(100, {{10, 0, 100}, {10, 0, 100}}) == Shares{50, 50});
    CHECK(share(100, {{10, 0, 20}, {10, 0, 100}}) == Shares{20, 80});
}

TEST_CASE(
    "memory broker: who needs more gets what the others do not use, and they keep their least") {
    CHECK(share(100, {{10, 100, 100}, {10, 0, 100}}) == Shares{90, 10});
    CHECK(share(100, {{10, 100, 100}, {10, 30, 100}}) == Shares{70, 30});
    CHECK(share(100, {{10, 100, 100}, {10, 100, 100}}) == Shares{50, 50});
    CHECK(share(100, {{10, 40, 100}, {10, 40, 100}}) == Shares{50, 50});
}

TEST_CASE("memory broker: nobody falls below the least, even where the pool is too small") {
    CHECK(share(10, {{8, 20, 20}, {8, 0, 20}}) == Shares{8, 8});
}

TEST_CASE(
    "memory broker: shares of random claims fit the pool and leave nothing that somebody could "
    "use") {
    std::mt19937 random(7);
    const auto draw = [&](uint64_t low, uint64_t high) {
        return std::uniform_int_distribution<uint64_t>(low, high)(random);
    };
    for (int round = 0; round < 2000; ++round) {
        std::vector<CacheRequest> claims(draw(1, 6));
        uint64_t leasts = 0;
        uint64_t mosts = 0;
        for (CacheRequest& claim : claims) {
            claim.max_bytes = draw(1, 1'000'000);
            claim.min_bytes = draw(1, claim.max_bytes);
            claim.needed_bytes = draw(0, claim.max_bytes);
            leasts += claim.min_bytes;
            mosts += claim.max_bytes;
        }
        const uint64_t pool = draw(leasts, 2'000'000 + leasts);
        const Shares shares = share_pool(pool, claims);
        const uint64_t sum = std::accumulate(shares.begin(), shares.end(), uint64_t{0});
        CHECK(sum == std::min(pool, mosts));
        for (size_t i = 0; i < claims.size(); ++i) {
            CHECK(shares[i] >= claims[i].min_bytes);
            CHECK(shares[i] <= claims[i].max_bytes);
            // Whoever has more than its least and its need takes nothing from one that needs more.
            const bool has_spare =
                shares[i] > std::max(claims[i].min_bytes, claims[i].needed_bytes);
            for (size_t j = 0; has_spare && j < claims.size(); ++j) {
                CHECK(shares[j] >= claims[j].needed_bytes);
            }
        }
    }
}
