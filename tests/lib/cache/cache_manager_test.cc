// The cache manager: prefix hits, windows, deferral, and long random runs that check every read.
#include "lib/cache/cache_manager.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "kernels/error.h"
#include "tests/lib/cache/kv_slots.h"

namespace nvllm {
namespace {

using Blocks = std::vector<std::vector<BlockId>>;

std::vector<int32_t> tokens_from(int32_t first, int32_t count) {
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
    return tokens;
}

CacheConfig one_group(int32_t num_blocks, int32_t window = 0) {
    return {.block_size = 4, .groups = {{num_blocks, window}}, .hash_key = HashKey{1, 2}};
}

// Lets a sequence in, computes all its tokens; false when it does not fit.
bool run_through(CacheManager& cache, SequenceBlocks& sequence, std::span<const int32_t> tokens) {
    const PrefixMatch match = cache.match(sequence, tokens);
    if (!cache.admit(sequence, match, static_cast<int32_t>(tokens.size()), 64, 0)) return false;
    cache.commit(sequence, tokens, static_cast<int32_t>(tokens.size()));
    return true;
}

int32_t matched(CacheManager& cache, std::span<const int32_t> tokens, std::string_view salt = "") {
    SequenceBlocks probe(cache, salt);
    return cache.match(probe, tokens).num_tokens;
}

TEST_CASE("full blocks of a finished sequence are found, the last token never") {
    CacheManager cache(one_group(8));
    const std::vector<int32_t> tokens = tokens_from(10, 12);
    {
        SequenceBlocks sequence(cache, "");
        REQUIRE(run_through(cache, sequence, tokens));
        CHECK(cache.stats().blocks.used == 3);
    }
    CHECK(cache.stats().blocks.used == 0);
    CHECK(cache.stats().blocks.cached == 3);
    CHECK(matched(cache, tokens) == 8);
    CHECK(matched(cache, tokens_from(10, 13)) == 12);
    CHECK(matched(cache, tokens_from(10, 5)) == 4);
    CHECK(matched(cache, tokens_from(10, 4)) == 0);
    CHECK(matched(cache, tokens_from(11, 13)) == 0);
    CHECK(matched(cache, {}) == 0);
}

TEST_CASE("only blocks of committed tokens are inserted into the prefix cache") {
    CacheManager cache(one_group(8));
    const std::vector<int32_t> tokens = tokens_from(0, 12);
    SequenceBlocks sequence(cache, "");
    REQUIRE(cache.admit(sequence, cache.match(sequence, tokens), 12, 64, 0));
    CHECK(matched(cache, tokens) == 0);
    cache.commit(sequence, tokens, 7);
    CHECK(matched(cache, tokens) == 4);
    CHECK(sequence.num_cached_blocks() == 1);
    cache.commit(sequence, tokens, 8);
    CHECK(matched(cache, tokens) == 8);
}

TEST_CASE("a running sequence's blocks are shared, not copied") {
    CacheManager cache(one_group(6));
    const std::vector<int32_t> tokens = tokens_from(0, 9);
    SequenceBlocks first(cache, "");
    SequenceBlocks second(cache, "");
    REQUIRE(run_through(cache, first, tokens));
    REQUIRE(run_through(cache, second, tokens));
    CHECK(cache.stats().blocks.used == 4);
    CHECK(second.table(0)[0] == first.table(0)[0]);
    CHECK(second.table(0)[1] == first.table(0)[1]);
    CHECK(second.table(0)[2] != first.table(0)[2]);
    CHECK(cache.stats().queried_tokens == 18);
    CHECK(cache.stats().hit_tokens == 8);
    const std::vector<const SequenceBlocks*> all{&first, &second};
    cache.check_integrity(all);
}

TEST_CASE("different salts share nothing") {
    CacheManager cache(one_group(8));
    const std::vector<int32_t> tokens = tokens_from(0, 9);
    SequenceBlocks sequence(cache, "alice");
    REQUIRE(run_through(cache, sequence, tokens));
    CHECK(matched(cache, tokens, "alice") == 8);
    CHECK(matched(cache, tokens, "bob") == 0);
    CHECK(matched(cache, tokens) == 0);
}

TEST_CASE("without prefix caching nothing is found and nothing stays") {
    CacheConfig config = one_group(8);
    config.enable_prefix_caching = false;
    CacheManager cache(config);
    const std::vector<int32_t> tokens = tokens_from(0, 9);
    SequenceBlocks sequence(cache, "");
    REQUIRE(run_through(cache, sequence, tokens));
    CHECK(matched(cache, tokens) == 0);
    cache.free(sequence);
    CHECK(cache.stats().blocks.free == 8);
    CHECK(cache.stats().queried_tokens == 0);
}

TEST_CASE("the last blocks of a sequence are reused before its first") {
    CacheManager cache(one_group(4));
    const std::vector<int32_t> tokens = tokens_from(0, 17);
    {
        SequenceBlocks sequence(cache, "");
        REQUIRE(run_through(cache, sequence, tokens_from(0, 16)));
    }
    CHECK(matched(cache, tokens) == 16);
    SequenceBlocks other(cache, "");
    REQUIRE(run_through(cache, other, tokens_from(100, 5)));
    CHECK(matched(cache, tokens) == 8);
    CHECK(cache.stats().blocks.evictions == 2);
}

TEST_CASE("the content longest unused goes first") {
    CacheManager cache(one_group(4));
    const auto use = [&](int32_t first) {
        SequenceBlocks sequence(cache, "");
        return run_through(cache, sequence, tokens_from(first, 5));
    };
    REQUIRE(use(0));
    REQUIRE(use(100));
    REQUIRE(use(200));
    REQUIRE(use(0));    // used again
    REQUIRE(use(300));  // takes the free blocks first, then 100's
    REQUIRE(use(400));
    CHECK(matched(cache, tokens_from(0, 5)) == 4);
    CHECK(matched(cache, tokens_from(100, 5)) == 0);
}

TEST_CASE("all groups or nothing") {
    CacheConfig config = one_group(8);
    config.groups.push_back({2, 0});
    CacheManager cache(config);
    SequenceBlocks sequence(cache, "");
    const std::vector<int32_t> tokens = tokens_from(0, 12);
    CHECK_FALSE(cache.admit(sequence, cache.match(sequence, tokens), 12, 64, 0));
    CHECK(sequence.empty());
    CHECK(cache.stats().blocks.used == 0);
    REQUIRE(cache.admit(sequence, cache.match(sequence, tokens), 8, 64, 0));
    Blocks added;
    CHECK(cache.allocate(sequence, 8, added));
    CHECK(added.empty());
    CHECK_FALSE(cache.allocate(sequence, 9, added));
    CHECK(added.empty());
    CHECK(cache.counts(0).used == 2);
}

TEST_CASE("headroom and hits on unused blocks count when a sequence comes in") {
    CacheManager cache(one_group(4));
    {
        SequenceBlocks sequence(cache, "");
        REQUIRE(run_through(cache, sequence, tokens_from(0, 8)));
    }
    const std::vector<int32_t> tokens = tokens_from(0, 12);
    SequenceBlocks sequence(cache, "");
    const PrefixMatch match = cache.match(sequence, tokens);
    CHECK(match.num_tokens == 8);
    CHECK_FALSE(cache.admit(sequence, match, 12, 64, 2));
    CHECK(cache.admit(sequence, match, 12, 64, 1));
}

TEST_CASE("blocks behind the window are given back, and a hit needs only the window") {
    CacheManager cache(one_group(16, 6));
    const std::vector<int32_t> tokens = tokens_from(0, 40);
    SequenceBlocks sequence(cache, "");
    REQUIRE(cache.admit(sequence, cache.match(sequence, tokens), 40, 4, 0));
    Blocks added;
    for (int32_t computed = 4; computed <= 40; computed += 4) {
        REQUIRE(cache.allocate(sequence, computed, added));
        cache.commit(sequence, tokens, computed);
        CHECK(cache.counts(0).used <= cache.shape().max_blocks(0, 40, 4));
    }
    // Position 40 reads from 35 on: block 8 and later.
    CHECK(sequence.table(0).num_given_back() == 8);
    CHECK(cache.counts(0).used == 2);
    CHECK(cache.counts(0).cached == 8);
    CHECK(matched(cache, tokens_from(0, 41)) == 40);
    const std::vector<const SequenceBlocks*> all{&sequence};
    cache.check_integrity(all);

    SequenceBlocks other(cache, "");
    const std::vector<int32_t> longer = tokens_from(0, 41);
    REQUIRE(cache.admit(other, cache.match(other, longer), 41, 4, 0));
    CHECK(other.table(0).num_given_back() == 8);
    CHECK(other.table(0)[8] == sequence.table(0)[8]);
    CHECK(other.table(0).size() == 11);
}

TEST_CASE("max_blocks is enough for any cut of a sequence into steps, and one less is not") {
    std::mt19937 random(3);
    for (const int32_t window : {1, 2, 5, 8, 13}) {
        for (const int32_t largest_step : {1, 3, 8}) {
            const int32_t bound =
                CacheManager(one_group(1, window)).shape().max_blocks(0, 100, largest_step);
            CacheManager cache(one_group(bound, window));
            const std::vector<int32_t> tokens = tokens_from(0, 100);
            int32_t most_used = 0;
            for (int run = 0; run < 40; ++run) {
                SequenceBlocks sequence(cache, std::to_string(run));
                const PrefixMatch match = cache.match(sequence, tokens);
                REQUIRE(cache.admit(sequence, match, 1, largest_step, 0));
                int32_t computed = 0;
                while (computed < 100) {
                    const auto drawn = static_cast<int32_t>(random()) & 7;
                    const int32_t count = std::min({1 + drawn, largest_step, 100 - computed});
                    Blocks added;
                    REQUIRE(cache.allocate(sequence, computed + count, added));
                    most_used = std::max(most_used, cache.counts(0).used);
                    cache.commit(sequence, tokens, computed += count);
                }
            }
            CHECK(most_used == bound);
        }
    }
}

TEST_CASE("a prefix must be there in every group as far as its window reaches") {
    CacheConfig config = one_group(32);
    config.groups.push_back({6, 4});
    CacheManager cache(config);
    const std::vector<int32_t> tokens = tokens_from(0, 24);
    {
        SequenceBlocks sequence(cache, "");
        REQUIRE(cache.admit(sequence, cache.match(sequence, tokens), 24, 4, 0));
        Blocks added;
        for (int32_t computed = 4; computed <= 24; computed += 4) {
            REQUIRE(cache.allocate(sequence, computed, added));
            cache.commit(sequence, tokens, computed);
        }
    }
    CHECK(matched(cache, tokens_from(0, 25)) == 24);
    // Takes the three blocks of the window group that have been unused longest: the second group
    // forgets 0 to 11.
    SequenceBlocks other(cache, "");
    REQUIRE(run_through(cache, other, tokens_from(100, 9)));
    CHECK(matched(cache, tokens_from(0, 9)) == 0);
    CHECK(matched(cache, tokens_from(0, 25)) == 24);
}

TEST_CASE("a block is reused only after the last plan that names it is committed") {
    CacheManager cache(one_group(2));
    const std::vector<int32_t> tokens = tokens_from(0, 8);
    SequenceBlocks first(cache, "");
    REQUIRE(cache.admit(first, cache.match(first, tokens), 8, 64, 0));
    cache.name_in_plan(first, 1);
    cache.name_in_plan(first, 2);
    cache.free(first);
    CHECK(first.empty());
    CHECK(cache.parts().deferred.has_blocks());
    CHECK(cache.stats().blocks.used == 2);
    cache.check_integrity({});
    SequenceBlocks second(cache, "");
    CHECK_FALSE(cache.admit(second, cache.match(second, tokens), 4, 64, 0));
    cache.plan_committed(1);
    CHECK_FALSE(cache.admit(second, cache.match(second, tokens), 4, 64, 0));
    cache.plan_committed(2);
    CHECK_FALSE(cache.parts().deferred.has_blocks());
    CHECK(cache.admit(second, cache.match(second, tokens), 4, 64, 0));
}

TEST_CASE("what a faulty sequence computed is not found, what it shared is") {
    CacheManager cache(one_group(8));
    const std::vector<int32_t> tokens = tokens_from(0, 13);
    SequenceBlocks good(cache, "");
    REQUIRE(run_through(cache, good, tokens_from(0, 5)));
    SequenceBlocks faulty(cache, "");
    REQUIRE(run_through(cache, faulty, tokens));
    CHECK(matched(cache, tokens) == 12);
    cache.discard(faulty);
    CHECK(matched(cache, tokens) == 4);
    CHECK(cache.stats().blocks.free == 6);
    const std::vector<const SequenceBlocks*> all{&good, &faulty};
    cache.check_integrity(all);
}

TEST_CASE("a sequence that shared once and comes back to an empty cache shares nothing") {
    CacheManager cache(one_group(8));
    const std::vector<int32_t> tokens = tokens_from(0, 13);
    SequenceBlocks sequence(cache, "");
    {
        SequenceBlocks first(cache, "");
        REQUIRE(run_through(cache, first, tokens));
    }
    REQUIRE(run_through(cache, sequence, tokens));
    cache.free(sequence);
    cache.clear();
    REQUIRE(run_through(cache, sequence, tokens));
    cache.discard(sequence);
    CHECK(matched(cache, tokens) == 0);
    CHECK(cache.stats().blocks.cached == 0);
}

TEST_CASE("lost memory is found no more") {
    CacheManager cache(one_group(8));
    const std::vector<int32_t> tokens = tokens_from(0, 9);
    SequenceBlocks sequence(cache, "");
    REQUIRE(run_through(cache, sequence, tokens));
    CHECK_THROWS_AS(cache.clear(), Error);
    cache.free(sequence);
    cache.clear();
    CHECK(matched(cache, tokens) == 0);
    CHECK(cache.stats().blocks.free == 8);
    CHECK(cache.stats().blocks.evictions == 0);
}

TEST_CASE("a reset forgets what no sequence uses, and nothing else") {
    CacheManager cache(one_group(8));
    const std::vector<int32_t> running = tokens_from(0, 9);
    SequenceBlocks sequence(cache, "");
    REQUIRE(run_through(cache, sequence, running));
    {
        SequenceBlocks finished(cache, "");
        REQUIRE(run_through(cache, finished, tokens_from(50, 9)));
    }
    CHECK(matched(cache, running) == 8);
    CHECK(matched(cache, tokens_from(50, 9)) == 8);
    const CacheReset reset = cache.clear_unused();
    CHECK(reset.removed == 2);
    CHECK(reset.in_use == 3);
    CHECK(matched(cache, tokens_from(50, 9)) == 0);
    CHECK(matched(cache, running) == 8);
    CHECK(cache.stats().blocks.free == 5);
    CHECK(cache.clear_unused().removed == 0);
}

TEST_CASE("sizes that make no cache are refused") {
    CHECK_THROWS_AS(CacheManager(CacheConfig{}), Error);
    CHECK_THROWS_AS(CacheManager(one_group(0)), Error);
    CHECK_THROWS_AS(CacheManager(one_group(4, -1)), Error);
}

// A sequence of the random run and what the test knows of it.
struct Walker {
    Walker(CacheManager& cache, std::string_view salt) : cache(cache, salt) {}

    SequenceBlocks cache;
    std::vector<int32_t> tokens;
    std::vector<uint64_t> digests;
    int32_t num_computed = 0;
    int32_t num_planned = 0;
    uint64_t last_plan = 0;
};

struct RandomRun {
    RandomRun(const CacheConfig& config, unsigned seed, int depth)
        : config(config), cache(config), random(seed), depth(depth) {
        for (const CacheGroupConfig& group : config.groups) {
            slots.emplace_back(group.num_blocks, config.block_size, group.window);
        }
    }

    int draw(int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }

    void come_in() {
        const std::string salt = draw(4) == 0 ? "salt" : "";
        auto walker = std::make_unique<Walker>(cache, salt);
        const int length = 1 + draw(40);
        // Few different beginnings, so that prefixes are shared often.
        const int beginning = draw(3);
        for (int i = 0; i < length; ++i)
            walker->tokens.push_back(draw(12) == 0 ? draw(3) : beginning);
        walker->digests = prefix_digests(walker->tokens, salt.size() + 1);
        const PrefixMatch match = cache.match(walker->cache, walker->tokens);
        ++queries;
        if (!cache.admit(walker->cache, match, length, 8, draw(3))) return;
        hits += match.num_tokens > 0;
        walker->num_computed = walker->num_planned = match.num_tokens;
        check_new_blocks(*walker, match.contents.size());
        check_hit(*walker);
        walkers.push_back(std::move(walker));
    }

    // What was found must be what this sequence would have computed, as far as its next query
    // reads.
    void check_hit(const Walker& walker) {
        if (walker.num_computed == 0) return;
        for (size_t group = 0; group < slots.size(); ++group) {
            const int32_t window = slots[group].window();
            const int32_t reach = window == 0 ? walker.num_computed : window - 1;
            for (int32_t p = std::max(0, walker.num_computed - reach); p < walker.num_computed;
                 ++p) {
                const auto& table = walker.cache.table(static_cast<int32_t>(group)).blocks();
                wrong += slots[group].holds(table, p) != walker.digests[static_cast<size_t>(p)];
            }
        }
    }

    // No block that came new is named by a plan that is not committed.
    void check_new_blocks(const Walker& walker, size_t from) {
        for (size_t group = 0; group < slots.size(); ++group) {
            const BlockTable& table = walker.cache.table(static_cast<int32_t>(group));
            for (int32_t i = static_cast<int32_t>(from); i < table.size(); ++i) {
                for (const auto& plan : uncommitted) wrong += plan.named[group].contains(table[i]);
            }
        }
    }

    void plan_step() {
        if (walkers.empty() || static_cast<int>(uncommitted.size()) >= depth) return;
        Walker& walker = *walkers[static_cast<size_t>(draw(static_cast<int>(walkers.size())))];
        const int32_t left = static_cast<int32_t>(walker.tokens.size()) - walker.num_planned;
        if (left == 0) return;
        const int32_t count = std::min(left, 1 + draw(8));
        const int32_t first = walker.num_planned;
        std::vector<int32_t> before;
        for (int32_t g = 0; g < cache.num_groups(); ++g)
            before.push_back(walker.cache.table(g).size());
        Blocks added;
        if (!cache.allocate(walker.cache, first + count, added)) return;
        for (size_t group = 0; group < added.size(); ++group) {
            const auto& blocks = walker.cache.table(static_cast<int32_t>(group)).blocks();
            const std::vector<BlockId> tail(blocks.begin() + before[group], blocks.end());
            wrong += tail != added[group];
            for (const auto& plan : uncommitted) {
                for (const BlockId block : tail) wrong += plan.named[group].contains(block);
            }
        }
        walker.num_planned += count;
        walker.last_plan = ++plan_number;
        cache.name_in_plan(walker.cache, plan_number);
        compute(walker, first, count);
        Plan plan{plan_number, &walker, count, {}};
        for (int32_t g = 0; g < cache.num_groups(); ++g) {
            const auto held = walker.cache.table(g).held();
            plan.named.emplace_back(held.begin(), held.end());
        }
        uncommitted.push_back(std::move(plan));
    }

    void compute(const Walker& walker, int32_t first, int32_t count) {
        for (size_t group = 0; group < slots.size(); ++group) {
            const auto& table = walker.cache.table(static_cast<int32_t>(group)).blocks();
            for (int32_t p = first; p < first + count; ++p) {
                slots[group].write(table, p, walker.digests[static_cast<size_t>(p)]);
            }
            for (int32_t p = first; p < first + count; ++p) {
                wrong += !slots[group].reads_well(table, p, walker.digests);
            }
        }
    }

    void commit_step() {
        if (uncommitted.empty()) return;
        const Plan plan = std::move(uncommitted.front());
        uncommitted.pop_front();
        cache.plan_committed(plan.number);
        if (plan.walker == nullptr) return;
        plan.walker->num_computed += plan.count;
        cache.commit(plan.walker->cache, plan.walker->tokens, plan.walker->num_computed);
    }

    void leave() {
        if (walkers.empty()) return;
        const size_t who = static_cast<size_t>(draw(static_cast<int>(walkers.size())));
        for (Plan& plan : uncommitted) {
            if (plan.walker == walkers[who].get()) plan.walker = nullptr;
        }
        if (draw(5) == 0) cache.discard(walkers[who]->cache);
        walkers.erase(walkers.begin() + static_cast<long>(who));
    }

    void check() {
        std::vector<const SequenceBlocks*> all;
        for (const auto& walker : walkers) all.push_back(&walker->cache);
        cache.check_integrity(all);
        const BlockCounts blocks = cache.stats().blocks;
        wrong += blocks.used + blocks.cached + blocks.free != blocks.total;
    }

    void run(int num_steps) {
        for (int i = 0; i < num_steps && wrong == 0; ++i) {
            switch (draw(8)) {
                case 0:
                    come_in();
                    break;
                case 1:
                    draw(3) == 0 ? leave() : plan_step();
                    break;
                case 2:
                case 3:
                    commit_step();
                    break;
                default:
                    plan_step();
            }
            check();
        }
        walkers.clear();
        while (!uncommitted.empty()) {
            uncommitted.front().walker = nullptr;
            commit_step();
        }
        check();
        wrong += cache.stats().blocks.used != 0;
    }

    struct Plan {
        uint64_t number = 0;
        Walker* walker = nullptr;  // null when it has left
        int32_t count = 0;
        std::vector<std::set<BlockId>> named;  // per group
    };

    CacheConfig config;
    CacheManager cache;
    std::mt19937 random;
    int depth;
    std::vector<KvSlots> slots;
    std::vector<std::unique_ptr<Walker>> walkers;
    std::deque<Plan> uncommitted;
    uint64_t plan_number = 0;
    int wrong = 0;
    int hits = 0;
    int queries = 0;
};

TEST_CASE("random sequences read only what they would have computed themselves") {
    int64_t hits = 0;
    int64_t evictions = 0;
    for (const int32_t window : {0, 1, 5, 9}) {
        for (const int depth : {1, 3}) {
            CacheConfig config{.block_size = 4, .groups = {{40, 0}}, .hash_key = HashKey{5, 6}};
            if (window > 0) config.groups.push_back({24, window});
            RandomRun run(config, static_cast<unsigned>(100 + window * 10 + depth), depth);
            run.run(10000);
            CHECK(run.wrong == 0);
            CHECK(run.hits * 10 > run.queries);
            hits += run.hits;
            evictions += run.cache.stats().blocks.evictions;
        }
    }
    MESSAGE("hits ", hits, ", evictions ", evictions);
    CHECK(evictions > 1000);
}

}  // namespace
}  // namespace nvllm
