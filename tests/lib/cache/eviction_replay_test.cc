// What each eviction policy saves on made-up traffic: conversations that come back, one-off
// documents, and a queue of requests that wait. The same requests in the same order for all rows.
#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

struct Saved {
    double hit_rate = 0.0;
    double cost = 0.0;  // part of the prefill cost that hits made unnecessary
};

// A conversation grows with every turn; popular ones come often. Every fourth request is a document
// that never comes again.
class Traffic {
  public:
    std::vector<int32_t> next() {
        if (random_() % 4 == 0) return fresh(200 + random_() % 1200);
        const unsigned rank = random_() % 8 * (random_() % 8);
        std::vector<int32_t>& history = conversations_[rank];
        if (history.empty() || history.size() > 3000) history = fresh(64);
        const std::vector<int32_t> turn = fresh(32 + random_() % 200);
        history.insert(history.end(), turn.begin(), turn.end());
        return history;
    }

  private:
    std::vector<int32_t> fresh(size_t count) {
        std::vector<int32_t> tokens(count);
        for (int32_t& token : tokens) token = next_token_++;
        return tokens;
    }

    std::mt19937 random_{2024};
    int32_t next_token_ = 0;
    std::map<unsigned, std::vector<int32_t>> conversations_;
};

double prefill_cost(int32_t num_blocks, const EvictionCosts& costs) {
    double sum = 0.0;
    for (int32_t depth = 0; depth < num_blocks; ++depth) {
        sum += recompute_cost({.depth = depth, .block_size = 16}, costs);
    }
    return sum;
}

Saved replay(const std::string& eviction, size_t num_waiting) {
    CacheConfig config{.block_size = 16, .groups = {{1000, 0}}, .hash_key = HashKey{1, 2}};
    config.eviction = eviction;
    config.eviction_costs.per_token_and_position = 1e-3;
    CacheManager cache(config);
    struct Waiting {
        std::vector<int32_t> tokens;
        std::unique_ptr<SequenceBlocks> cache;
    };
    std::deque<Waiting> queue;
    Traffic traffic;
    double all = 0.0;
    double saved = 0.0;
    for (int i = 0; i < 3000; ++i) {
        while (queue.size() <= num_waiting) {
            queue.push_back({traffic.next(), std::make_unique<SequenceBlocks>(cache, "")});
            cache.set_reuse_hint(*queue.back().cache, queue.back().tokens);
        }
        const Waiting now = std::move(queue.front());
        queue.pop_front();
        const auto found =
            static_cast<int32_t>(cache.match(*now.cache, now.tokens).contents.size());
        saved += prefill_cost(found, config.eviction_costs);
        all += prefill_cost(static_cast<int32_t>(now.tokens.size()) / 16, config.eviction_costs);
        run_through(cache, *now.cache, now.tokens);
    }
    return {cache.detailed_stats().hit_rate, saved / all};
}

TEST_CASE("cost saves more prefill than lru, and more with a queue to look at") {
    std::map<std::string, Saved> alone;
    std::map<std::string, Saved> queued;
    for (const EvictionPolicy& policy : eviction_policies()) {
        const std::string name = policy.name;
        alone[name] = replay(name, 0);
        queued[name] = replay(name, 16);
        MESSAGE(name, ": hit rate ", alone[name].hit_rate, ", prefill saved ", alone[name].cost,
                "; with 16 waiting ", queued[name].hit_rate, ", ", queued[name].cost);
    }
    CHECK(alone["cost"].cost >= alone["lru"].cost);
    CHECK(queued["cost"].cost > alone["cost"].cost);
    CHECK(queued["cost"].cost > queued["lru"].cost);
}

}  // namespace
}  // namespace nvllm
