// What counts as standing still.
#include "lib/engine/loop/watchdog.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

using namespace nvllm;

namespace {

using Pulse = Heartbeat::Pulse;

// Looks until the detector says so; the seconds that took, at most ten.
double seconds_to_stall(StallDetector& detector, const Pulse& pulse) {
    double passed_s = 0.0;
    while (passed_s < 10.0) {
        passed_s += detector.interval_s();
        if (detector.update(pulse, std::nullopt, detector.interval_s())) return passed_s;
    }
    return passed_s;
}

}  // namespace

TEST_CASE("a beat that does not follow in time is a stall, and the next one ends it") {
    StallDetector detector(2.0);
    const double passed_s = seconds_to_stall(detector, {1, EnginePhase::computing});
    CHECK(passed_s >= 2.0);
    CHECK(passed_s <= 2.0 + 2 * detector.interval_s());
    CHECK(detector.stalled());
    CHECK_FALSE(detector.update({2, EnginePhase::computing}, std::nullopt, 0.25));
    CHECK_FALSE(detector.stalled());
}

TEST_CASE("ticks that follow, and an engine with nothing to do, are well") {
    StallDetector detector(1.0);
    for (uint64_t tick = 1; tick < 100; ++tick) {
        CHECK_FALSE(detector.update({tick, EnginePhase::planning}, std::nullopt, 0.9));
    }
    for (int i = 0; i < 100; ++i) {
        CHECK_FALSE(detector.update({100, EnginePhase::idle}, std::nullopt, 0.5));
    }
}

TEST_CASE("time in which the watchdog itself did not run is not held against anybody") {
    StallDetector detector(2.0);
    const Pulse pulse{1, EnginePhase::computing};
    CHECK_FALSE(detector.update(pulse, std::nullopt, 0.25));
    CHECK_FALSE(detector.update(pulse, std::nullopt, 3600.0));
    CHECK_FALSE(detector.update(pulse, std::nullopt, 0.25));
    CHECK_FALSE(detector.stalled());
}

TEST_CASE(
    "a worker that reads from disk gets on; one that only burns time does so in a start alone") {
    const auto stalls = [](EnginePhase phase, bool reads, bool burns) {
        StallDetector detector(1.0);
        ProcessProgress progress;
        for (int i = 0; i < 20; ++i) {
            progress.major_faults += reads;
            progress.cpu_ticks += burns;
            if (detector.update({1, phase}, progress, detector.interval_s())) return true;
        }
        return false;
    };
    CHECK(stalls(EnginePhase::computing, false, false));
    CHECK_FALSE(stalls(EnginePhase::computing, true, false));
    CHECK(stalls(EnginePhase::computing, false, true));
    CHECK_FALSE(stalls(EnginePhase::starting, false, true));
    CHECK(stalls(EnginePhase::starting, false, false));
}

TEST_CASE("a heart that ticks") {
    Heartbeat heartbeat;
    CHECK(heartbeat.seconds_since() == 0.0);
    heartbeat.tick(EnginePhase::computing);
    const Pulse first = heartbeat.pulse();
    CHECK(first.phase == EnginePhase::computing);
    CHECK(heartbeat.seconds_since() >= 0.0);
    heartbeat.tick(EnginePhase::computing);
    CHECK(heartbeat.pulse().ticks == first.ticks + 1);
    heartbeat.tick(EnginePhase::idle);
    CHECK(heartbeat.seconds_since() == 0.0);
}

TEST_CASE("what a process has got done is read from the system") {
    const auto before = process_progress(::getpid());
    REQUIRE(before);
    volatile double sink = 0.0;
    while (process_progress(::getpid())->cpu_ticks < before->cpu_ticks + 2) sink = sink + 1.0;
    CHECK_FALSE(process_progress(0));
}
