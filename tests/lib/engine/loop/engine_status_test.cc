// The state of an engine as other threads see it.
#include "lib/engine/loop/engine_status.h"

#include <doctest/doctest.h>

#include <thread>

using namespace nvllm;

namespace {

EngineStats stats_with(int64_t restarts, double fragmentation) {
    EngineStats stats;
    stats.faults.worker_restarts = restarts;
    stats.fragmentation = fragmentation;
    return stats;
}

}  // namespace

TEST_CASE("published stats and health are read as they were given") {
    EngineStatus status;
    status.note_fault("out of memory in a step");
    status.publish(stats_with(3, 0.5), EngineState::recovering, 17, 0);
    CHECK(status.stats().fragmentation == 0.5);
    const EngineHealth health = status.health();
    CHECK(health.state == EngineState::recovering);
    CHECK(health.worker_restarts == 3);
    CHECK(health.worker_pid == 17);
    CHECK(health.last_fault == "out of memory in a step");
}

TEST_CASE("an engine without open requests has no age of its heartbeat") {
    EngineStatus status;
    status.heartbeat().tick(EnginePhase::computing);
    CHECK(status.stats().seconds_since_heartbeat == 0.0);
    status.note_submitted();
    while (status.stats().seconds_since_heartbeat == 0.0) std::this_thread::yield();
    CHECK(status.health().seconds_since_heartbeat > 0.0);
    status.publish({}, EngineState::running, std::nullopt, 1);
    CHECK(status.health().seconds_since_heartbeat == 0.0);
}

TEST_CASE("a thread that waits for an idle engine reads the stats of the last request") {
    EngineStatus status;
    status.wait_idle();
    status.note_submitted();
    status.note_submitted();
    std::thread engine([&] {
        status.publish(stats_with(0, 0.25), EngineState::running, std::nullopt, 1);
        status.publish(stats_with(0, 0.75), EngineState::running, std::nullopt, 1);
    });
    status.wait_idle();
    CHECK(status.stats().fragmentation == 0.75);
    engine.join();
}
