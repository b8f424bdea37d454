// Which replica takes a request, by what is cached and by what is under way.
#include "lib/engine/replicas/replica_router.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "lib/cache/prefix/prefix_keys.h"

namespace nvllm {
namespace {

constexpr HashKey kKey{1, 2};
constexpr int32_t kBlock = 16;

ReplicaRouterConfig config(ReplicaRouting routing, int32_t num_replicas = 2) {
    ReplicaRouterConfig config{
        .routing = routing, .num_replicas = num_replicas, .hash_key = kKey, .block_size = kBlock};
    config.scheduler.max_model_len = 4096;
    return config;
}

// Of so many tokens; another `first` makes another prompt.
Request request(int32_t num_tokens, int32_t first) {
    Request request;
    request.prompt_token_ids.resize(static_cast<size_t>(num_tokens));
    std::iota(request.prompt_token_ids.begin(), request.prompt_token_ids.end(), first);
    return request;
}

struct Test {
    explicit Test(const ReplicaRouterConfig& config)
        : router(config), all(static_cast<size_t>(config.num_replicas), true) {}

    Route choose(const Request& request) { return router.choose(request, all); }
    // One that is done at once, and its prompt cached where it was.
    int32_t pass(const Request& request) {
        Route route = choose(request);
        for (const BlockKey& key : route.keys) router.cached_keys(route.replica).cached(key);
        router.ended(route);
        return route.replica;
    }

    ReplicaRouter router;
    std::vector<bool> all;
};

TEST_CASE("in turn, and past replicas that are lost") {
    Test test(config(ReplicaRouting::round_robin, 3));
    CHECK(test.choose(request(10, 0)).replica == 0);
    CHECK(test.choose(request(10, 0)).replica == 1);
    CHECK(test.router.choose(request(10, 0), {true, true, false}).replica == 0);
    CHECK(test.choose(request(10, 0)).replica == 1);
    // Something has to refuse it.
    CHECK(test.router.choose(request(10, 0), {false, false, false}).replica == 2);
    CHECK(test.router.num_routed() == std::vector<int64_t>{2, 2, 1});
}

TEST_CASE("the fewest answers under way") {
    Test test(config(ReplicaRouting::least_loaded));
    Request three = request(1000, 0);
    three.sampling.n = 3;
    Route first = test.choose(three);
    CHECK(first.replica == 0);
    for (int i = 0; i < 3; ++i) CHECK(test.choose(request(10, 0)).replica == 1);
    test.router.prompt_computed(first);
    CHECK(test.choose(request(10, 0)).replica == 0);  // four and three, then four and four
    test.router.ended(first);
    for (int i = 0; i < 2; ++i) CHECK(test.choose(request(10, 0)).replica == 0);
}

TEST_CASE("where the prompt is cached") {
    Test test(config(ReplicaRouting::prefix_aware));
    CHECK(test.pass(request(200, 0)) == 0);
    CHECK(test.pass(request(200, 5000)) == 1);
    for (int i = 0; i < 3; ++i) {
        CHECK(test.pass(request(200, 5000)) == 1);
        CHECK(test.pass(request(200, 0)) == 0);
        CHECK(test.pass(request(300, 0)) == 0);  // begins alike
    }
    CHECK(test.choose(request(200, 0)).num_uncached == 200 - 12 * kBlock);
}

TEST_CASE("what was dropped is not looked for") {
    Test test(config(ReplicaRouting::prefix_aware));
    Route route = test.choose(request(200, 0));
    CachedKeys& keys = test.router.cached_keys(route.replica);
    for (const BlockKey& key : route.keys) keys.cached(key);
    CHECK(keys.num_leading(route.keys) == 12);
    keys.dropped(route.keys[5]);
    CHECK(keys.num_leading(route.keys) == 5);
    keys.dropped(route.keys[0]);
    CHECK(keys.num_leading(route.keys) == 0);
}

TEST_CASE("a replica that has much to do gives up what it has cached") {
    Test test(config(ReplicaRouting::prefix_aware));
    CHECK(test.pass(request(100, 0)) == 0);
    CHECK(test.choose(request(100, 0)).replica == 0);
    const Route busy = test.router.choose(request(4000, 9000), {true, false});
    CHECK(busy.num_uncached == 4000);
    CHECK(test.choose(request(100, 0)).replica == 1);
}

TEST_CASE("a prompt that is being computed counts as cached there") {
    Test test(config(ReplicaRouting::prefix_aware));
    Route first = test.choose(request(1000, 0));
    Route second = test.choose(request(1000, 0));
    CHECK(second.replica == first.replica);
    CHECK(second.num_uncached == 1000 - 62 * kBlock);
    CHECK(test.choose(request(1000, 20000)).replica != first.replica);
    test.router.ended(first);
    test.router.ended(second);
}

TEST_CASE("a prompt that is cached nowhere goes where its beginning went before") {
    Test test(config(ReplicaRouting::prefix_aware));
    Route first = test.choose(request(500, 0));
    test.router.ended(first);  // and evicted
    Route other = test.choose(request(500, 9000));
    CHECK(other.replica != first.replica);
    test.router.ended(other);
    for (int i = 0; i < 3; ++i) {
        Route again = test.choose(request(500, 0));
        CHECK(again.replica == first.replica);
        CHECK(again.num_uncached == 500);
        test.router.ended(again);
    }
    // Not at any price.
    const std::vector<bool> only = {first.replica == 0, first.replica == 1};
    test.router.choose(request(4000, 30000), only);
    CHECK(test.choose(request(500, 0)).replica == other.replica);
}

TEST_CASE(
    "requests of an adapter stay together, while it has a slot and others do not hold it up") {
    ReplicaRouterConfig two = config(ReplicaRouting::prefix_aware);
    two.scheduler.adapters = {.max_loras = 2, .max_cpu_loras = 4};
    Test test(two);
    int32_t first = 0;
    const auto with = [&](int32_t adapter) {
        Request made = request(20, first += 100);
        made.adapter.id = adapter;
        return made;
    };
    std::vector<int32_t> home(5);
    for (int32_t adapter = 1; adapter <= 4; ++adapter) {
        home[static_cast<size_t>(adapter)] = test.pass(with(adapter));
    }
    CHECK(home[1] != home[2]);
    for (const int32_t adapter : {1, 1, 4, 3, 2, 2, 4, 1}) {
        CHECK(test.pass(with(adapter)) == home[static_cast<size_t>(adapter)]);
    }
    // Two others have taken the slots of its replica.
    const Route busy = test.choose(with(2));
    CHECK(test.pass(with(5)) != busy.replica);
    CHECK(test.pass(with(6)) != busy.replica);
    CHECK(busy.replica == home[2]);
    std::vector<Route> held;
    for (int i = 0; i < 8; ++i) held.push_back(test.choose(with(2)));
    CHECK(std::ranges::count(held, home[1], &Route::replica) > 0);
}

TEST_CASE("keys are those of the replicas' prefix indices") {
    Test test(config(ReplicaRouting::prefix_aware));
    Request salted = request(40, 7);
    salted.cache_salt = "salt";
    const Route route = test.choose(salted);
    const std::vector<int32_t> sizes{4};
    const PrefixIndex index(kBlock, sizes, kKey);
    const std::vector<BlockExtra> extras =
        block_extras({.salt = "salt", .adapter = {}, .media = {}}, kBlock);
    const BlockKey one =
        index.key({}, block_tokens(salted.prompt_token_ids, 0, kBlock), extras.front().bytes);
    const BlockKey two = index.key(one, block_tokens(salted.prompt_token_ids, 1, kBlock), "");
    CHECK(route.keys == std::vector<BlockKey>{one, two});
    CHECK(test.choose(request(40, 7)).keys.front() != one);
}

TEST_CASE("without a prefix cache there are no keys, and load decides") {
    ReplicaRouterConfig without = config(ReplicaRouting::prefix_aware);
    without.caches_prefixes = false;
    Test test(without);
    const Route first = test.choose(request(100, 0));
    CHECK(first.keys.empty());
    CHECK(test.choose(request(100, 0)).replica != first.replica);
}

TEST_CASE("any thread may choose, and nothing is left over") {
    Test test(config(ReplicaRouting::prefix_aware, 3));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&test, t] {
            for (int i = 0; i < 200; ++i) {
                Route route = test.choose(request(64, (t * i) % 7 * 1000));
                CachedKeys& keys = test.router.cached_keys(route.replica);
                for (const BlockKey& key : route.keys)
                    i % 2 == 0 ? keys.cached(key) : keys.dropped(key);
                if (i % 3 == 0) test.router.prompt_computed(route);
                test.router.ended(route);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    const std::vector<int64_t> routed = test.router.num_routed();
    CHECK(std::accumulate(routed.begin(), routed.end(), int64_t{0}) == 800);
    // As for new ones: each of three requests of other prompts costs most.
    const Route one = test.choose(request(64, 100000));
    const Route two = test.choose(request(64, 200000));
    const Route three = test.choose(request(64, 300000));
    CHECK(one.replica + two.replica + three.replica == 3);
    CHECK(one.replica != two.replica);
}

}  // namespace
}  // namespace nvllm
