// What several replicas come to together.
#include "lib/engine/replicas/replica_sums.h"

#include <doctest/doctest.h>

#include <vector>

namespace nvllm {
namespace {

TEST_CASE("counts are added") {
    EngineStats one;
    one.scheduler.num_running = 3;
    one.scheduler.steps = 10;
    one.scheduler.speculation = {
        .drafts = 1, .draft_tokens = 4, .accepted_tokens = 2, .accepted_per_position = {1, 1}};
    one.cache.blocks = {100, 40, 25, 35, 9};
    one.cache.hit_tokens = 7;
    one.cache.host_tier.hit_tokens = 5;
    one.cache.disk_tier.blocks_held = 9;
    one.faults.worker_restarts = 1;
    one.device.graph_launches = 5;
    one.fragmentation = 0.5;
    EngineStats two = one;
    two.scheduler.num_running = 4;
    two.fragmentation = 0.25;
    two.seconds_since_heartbeat = 2.0;
    const EngineStats sum = sum_of(std::vector{one, two});
    CHECK(sum.scheduler.num_running == 7);
    CHECK(sum.scheduler.steps == 20);
    CHECK(sum.scheduler.speculation.draft_tokens == 8);
    CHECK(sum.scheduler.speculation.accepted_per_position[1] == 2);
    CHECK(sum.cache.blocks.total == 200);
    CHECK(sum.cache.blocks.used == 80);
    CHECK(sum.cache.blocks.cached == 50);
    CHECK(sum.cache.blocks.free == 70);
    CHECK(sum.cache.blocks.evictions == 18);
    CHECK(sum.cache.hit_tokens == 14);
    CHECK(sum.cache.host_tier.hit_tokens == 10);
    CHECK(sum.cache.disk_tier.blocks_held == 9);
    CHECK(sum.faults.worker_restarts == 2);
    CHECK(sum.device.graph_launches == 10);
    CHECK(sum.fragmentation == 0.5);
    CHECK(sum.seconds_since_heartbeat == 2.0);
}

TEST_CASE("one replica that computes is enough, one that hangs is too many") {
    const auto state_of = [](std::vector<EngineState> states) {
        std::vector<EngineHealth> replicas;
        for (const EngineState state : states) replicas.push_back({.state = state});
        return health_of(replicas).state;
    };
    using enum EngineState;
    CHECK(state_of({running, running}) == running);
    CHECK(state_of({failed, running}) == running);
    CHECK(state_of({recovering, failed}) == recovering);
    CHECK(state_of({failed, failed}) == failed);
    CHECK(state_of({running, stalled}) == stalled);
    EngineHealth lost{.state = failed, .worker_restarts = 3, .last_fault = "it ended"};
    const EngineHealth health = health_of(std::vector{EngineHealth{.worker_restarts = 1}, lost});
    CHECK(health.worker_restarts == 4);
    CHECK(health.last_fault == "it ended");
}

}  // namespace
}  // namespace nvllm
