// Composition of plans from running and waiting sequences.
#include "lib/schedule/planning/batch_composer.h"

#include <doctest/doctest.h>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

TEST_CASE("decode comes first, then running prefills, then admission") {
    SchedulerConfig config = small_config();
    config.max_num_batched_tokens = 10;
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 4, 9));
    simulation.add(endless(2, 15, 9));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 0, 4}, {2, 0, 6}});
    simulation.add(endless(3, 4, 9));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 4, 1}, {2, 6, 9}});
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 5, 1}, {2, 15, 1}, {3, 0, 4}});
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("a plan without drafts has no extras") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 4, 5));
    while (simulation.step()) CHECK(simulation.last_plan.extras.empty());
    CHECK(simulation.all_well());
}

TEST_CASE("any number of plans may be in flight") {
    SchedulerConfig config = small_config();
    config.pipeline_depth = 5;
    config.max_num_batched_tokens = 8;
    config.may_plan_ahead = [](const SamplingParams&) { return true; };
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 4, 30));
    for (int i = 0; i < 5; ++i) REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 7, 1}});
    CHECK(simulation.scheduler.num_in_flight() == 5);
    CHECK_FALSE(simulation.plan());
    simulation.scheduler.check_integrity();
    simulation.run();
    CHECK(simulation.finished.at(1).num_generated() == 30);
    CHECK(simulation.all_well());
}

}  // namespace
}  // namespace nvllm
