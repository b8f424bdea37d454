// Requests that are paused for slow clients: they are preempted, lose nothing, and resume.
#include <doctest/doctest.h>

#include <vector>

#include "lib/schedule/scheduler.h"
#include "lib/schedule/snapshot.h"
#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

TEST_CASE("nothing is planned of a request that is held, and then it goes on where it was") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 10, 20));
    simulation.add(endless(2, 10, 5));
    simulation.step();
    simulation.step();
    simulation.scheduler.backpressure().pause(1);
    simulation.scheduler.backpressure().pause(1);
    const int32_t length = simulation.scheduler.find(1)->num_tokens();
    for (int i = 0; i < 3; ++i) CHECK(simulation.step());
    CHECK(simulation.num_finished == 1);
    CHECK(simulation.scheduler.find(1)->num_tokens() == length);
    CHECK(simulation.scheduler.find(1)->state == SequenceState::paused);
    CHECK(simulation.cache.stats().blocks.used > 0);
    CHECK_FALSE(simulation.scheduler.has_work());
    CHECK_FALSE(simulation.step());
    const Snapshot snapshot =
        simulation.scheduler.snapshot(SnapshotDetail::without_tree, simulation.now_s);
    CHECK(snapshot.sequences.at(0).wait_reason == WaitReason::slow_client);
    simulation.scheduler.check_integrity();
    SUBCASE("to its end") {
        simulation.scheduler.backpressure().resume(1);
        simulation.run();
        CHECK(simulation.scheduler.stats().recomputed_tokens == 0);
        CHECK(simulation.finished.at(1).finish_reason == FinishReason::length);
    }
    SUBCASE("unless it is taken back") {
        CHECK(simulation.scheduler.cancel(1) == std::vector<SequenceId>{1});
    }
    simulation.scheduler.backpressure().resume(1);
    simulation.scheduler.backpressure().pause(99);
    CHECK(simulation.all_well());
}

TEST_CASE("a sequence in a plan in flight pauses at the commit") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 10, 20));
    simulation.step();
    simulation.plan();
    simulation.scheduler.backpressure().pause(1);
    simulation.commit();
    CHECK_FALSE(simulation.step());
    CHECK(simulation.scheduler.find(1)->num_generated() == 2);
    simulation.scheduler.backpressure().resume(1);
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("who is held keeps neither slots nor blocks from others") {
    SchedulerConfig config = small_config();
    SUBCASE("slots") { config.max_num_seqs = 1; }
    SUBCASE("blocks") {}
    // Twelve blocks: one request of full length.
    Simulation simulation(config, small_cache(12), kEndless);
    simulation.add(endless(1, 20, 28));
    simulation.step();
    simulation.step();
    simulation.add(endless(2, 20, 28));
    simulation.scheduler.backpressure().pause(1);
    while (simulation.scheduler.has_work()) simulation.step();
    CHECK(simulation.finished.at(2).finish_reason == FinishReason::length);
    CHECK(simulation.num_finished == 1);
    simulation.scheduler.backpressure().resume(1);
    simulation.run();
    CHECK(simulation.finished.at(1).finish_reason == FinishReason::length);
    CHECK(simulation.all_well());
}

TEST_CASE("one that waits and is held lets those behind it pass") {
    SchedulerConfig config = small_config();
    config.max_num_seqs = 1;
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 10, 3));
    simulation.add(endless(2, 10, 3));
    simulation.scheduler.backpressure().pause(1);
    while (simulation.scheduler.has_work()) simulation.step();
    CHECK(simulation.finished.count(2) == 1);
    CHECK(simulation.finished.count(1) == 0);
    simulation.scheduler.backpressure().resume(1);
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("a lost worker leaves what is held held") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 10, 20));
    simulation.step();
    simulation.scheduler.backpressure().pause(1);
    simulation.plan();
    simulation.scheduler.reset_worker();
    simulation.results.clear();
    simulation.worker.restart();
    CHECK_FALSE(simulation.step());
    simulation.scheduler.backpressure().resume(1);
    simulation.run();
    CHECK(simulation.all_well());
}

}  // namespace
}  // namespace nvllm
