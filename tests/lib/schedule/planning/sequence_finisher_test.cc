// Sequences that end early: cancelled, faulty, or under a worker that is lost.
#include "lib/schedule/planning/sequence_finisher.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "kernels/error.h"
#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

TEST_CASE("cancelling gives blocks back at once, or with the next commit") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    Request request = endless(1, 10, 50);
    request.sampling.n = 3;
    simulation.add(request);
    simulation.add(endless(2, 10, 50));
    SUBCASE("while it waits") {
        CHECK(simulation.scheduler.cancel(2) == std::vector<SequenceId>{4});
        CHECK(simulation.scheduler.find(4)->finish_reason == FinishReason::cancelled);
        CHECK(simulation.scheduler.stats().num_waiting == 3);
    }
    SUBCASE("between two steps") {
        simulation.step();
        simulation.step();
        CHECK(simulation.scheduler.cancel(1) == std::vector<SequenceId>{1, 2, 3});
        CHECK(simulation.scheduler.stats().num_running == 1);
        simulation.step();
        CHECK(std::set<SequenceId>(simulation.last_plan.removed.begin(),
                                   simulation.last_plan.removed.end()) ==
              std::set<SequenceId>{1, 2, 3});
        CHECK(simulation.worker.num_known() == 1);
    }
    SUBCASE("in a step") {
        simulation.step();
        simulation.plan();
        CHECK(simulation.cancel_sequence(2).empty());
        CHECK(simulation.cancel_sequence(2).empty());
        CHECK(simulation.scheduler.check_stop(simulation.results[0])[2].finish ==
              FinishReason::cancelled);
        CHECK(simulation.commit() == std::vector<SequenceId>{2});
    }
    SUBCASE("after the stop check") {
        simulation.step();
        simulation.plan();
        const StepResult result = simulation.results[0];
        const std::vector<StopDecision> decisions = simulation.scheduler.check_stop(result);
        simulation.scheduler.cancel(2);
        CHECK(simulation.scheduler.commit(result, decisions, 9.0) == std::vector<SequenceId>{4});
        simulation.results.clear();
        simulation.worker.committed(result.plan_number);
    }
    CHECK(simulation.scheduler.cancel(99).empty());
    CHECK(simulation.cancel_sequence(99).empty());
    simulation.scheduler.check_integrity();
    simulation.scheduler.cancel(1);
    simulation.scheduler.cancel(2);
    CHECK_FALSE(simulation.scheduler.has_work());
    CHECK(simulation.all_well());
}

TEST_CASE("a fault ends its sequence only, and nothing of it is found again") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 10, 50));
    simulation.add(endless(2, 10, 4));
    simulation.step();
    simulation.plan();
    simulation.results[0].sequences[0].fault =
        Fault{ErrorKind::internal, "logits that are not numbers"};
    simulation.results[0].sequences[0].token_ids.clear();
    CHECK(simulation.commit() == std::vector<SequenceId>{1});
    CHECK(simulation.finished.at(1).finish_reason == FinishReason::error);
    simulation.run();
    CHECK(simulation.finished.at(2).finish_reason == FinishReason::length);
    const SequenceId again = simulation.add(endless(1, 10, 2)).at(0);
    simulation.run();
    CHECK(simulation.finished.at(again).num_cached_tokens == 0);
    CHECK(simulation.all_well());
}

TEST_CASE("a lost worker is a preemption of everybody") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    Request request = endless(1, 14, 20);
    request.sampling.n = 3;
    simulation.add(request);
    simulation.add(endless(2, 9, 20));
    for (int i = 0; i < 4; ++i) simulation.step();
    simulation.plan();
    CHECK(simulation.cancel_sequence(4).empty());
    const int32_t kept = simulation.scheduler.find(1)->num_tokens();
    CHECK(simulation.scheduler.reset_worker() == std::vector<SequenceId>{4});
    simulation.results.clear();
    simulation.worker.restart();
    CHECK(simulation.scheduler.num_in_flight() == 0);
    CHECK(simulation.scheduler.stats().num_waiting == 3);
    CHECK(simulation.cache.stats().blocks.free == 64);
    CHECK(simulation.scheduler.find(1)->num_tokens() == kept);
    simulation.scheduler.check_integrity();
    simulation.step();
    CHECK(simulation.last_plan.removed.empty());
    CHECK(entries(simulation)[0] == std::vector<int64_t>{1, 0, kept});
    simulation.run();
    CHECK(simulation.num_finished == 3);
    CHECK(simulation.finished.at(1).num_preemptions == 1);
    CHECK(simulation.scheduler.stats().preemptions == 0);
    CHECK(simulation.scheduler.stats().worker_resets == 1);
    CHECK(simulation.all_well());
}

TEST_CASE("a sequence cancelled under two plans keeps its blocks until the second is committed") {
    SchedulerConfig config = small_config();
    config.pipeline_depth = 2;
    config.max_num_batched_tokens = 8;
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 20, 3));
    simulation.plan();
    simulation.plan();
    CHECK(simulation.scheduler.cancel(1).empty());
    CHECK(simulation.commit() == std::vector<SequenceId>{1});
    CHECK(simulation.cache.stats().blocks.used == 5);
    simulation.scheduler.check_integrity();
    CHECK(simulation.scheduler.check_stop(simulation.results[0])[0].finish ==
          FinishReason::cancelled);
    CHECK(simulation.commit().empty());
    CHECK_FALSE(simulation.scheduler.has_work());
    CHECK(simulation.all_well());
}

}  // namespace
}  // namespace nvllm
