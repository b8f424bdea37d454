// Who gives way when blocks run out, and that everybody finishes all the same.
#include "lib/schedule/preemption.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

TEST_CASE(
    "with blocks for one sequence of full length all finish, and the oldest is never preempted") {
    SchedulerConfig config = small_config();
    config.max_model_len = 64;
    for (const char* policy : {"fcfs", "sjf", "round-robin", "priority", "hybrid"}) {
        config.policy = policy;
        Simulation simulation(config, small_cache(16), kEndless);
        for (RequestId id = 1; id <= 24; ++id) {
            simulation.add(endless(id, 1 + static_cast<int32_t>(id * 5 % 30), 34));
        }
        simulation.run();
        CHECK(simulation.num_finished == 24);
        // Under the others somebody shorter may rank before the first.
        const bool oldest_first = config.policy == "fcfs" || config.policy == "priority";
        if (oldest_first) CHECK(simulation.finished.at(1).num_preemptions == 0);
        const int64_t preemptions = simulation.scheduler.stats().preemptions;
        MESSAGE(std::string(policy), ": preemptions ", preemptions, ", steps ",
                simulation.scheduler.stats().steps);
        CHECK(preemptions > 0);
        int32_t most = 0;
        for (const auto& [id, sequence] : simulation.finished)
            most = std::max(most, sequence.num_preemptions);
        CHECK(most <= 4);
        CHECK(simulation.all_well());
    }
}

TEST_CASE(
    "the last to come gives up its blocks, waits in front and goes on with the tokens it has") {
    SchedulerConfig config = small_config();
    config.max_num_seqs = 2;
    Simulation simulation(config, small_cache(10), kEndless);
    simulation.add(endless(1, 15, 20));  // 4 blocks, 9 at the end
    simulation.add(endless(2, 15, 12));  // 4 blocks, 7 at the end
    simulation.add(endless(3, 2, 2));
    while (simulation.scheduler.stats().preemptions == 0) REQUIRE(simulation.step());
    CHECK(simulation.last_plan.removed == std::vector<SequenceId>{2});
    const Sequence& second = *simulation.scheduler.find(2);
    CHECK(second.state == SequenceState::waiting);
    CHECK(second.num_generated() > 0);
    CHECK(second.num_computed == 0);
    CHECK(simulation.scheduler.find(3)->state == SequenceState::waiting);
    const int32_t kept = second.num_tokens();
    while (simulation.scheduler.find(2)->state == SequenceState::waiting)
        REQUIRE(simulation.step());
    CHECK(simulation.last_plan.added.at(0).sequence == 2);
    CHECK(static_cast<int32_t>(simulation.last_plan.added[0].token_ids.size()) == kept);
    CHECK(simulation.last_plan.added[0].num_prompt_tokens == 15);
    simulation.run();
    CHECK(simulation.finished.at(1).num_preemptions == 0);
    CHECK(simulation.finished.at(2).num_preemptions == 1);
    CHECK(simulation.finished.at(2).num_cached_tokens == 0);
    CHECK(simulation.num_finished == 3);
    CHECK(simulation.all_well());
}

TEST_CASE("the policy says who comes in first and who gives way") {
    SchedulerConfig config = small_config();
    config.max_num_seqs = 1;
    config.policy = "priority";
    Simulation simulation(config, small_cache(), kEndless);
    for (RequestId id = 1; id <= 4; ++id) {
        Request request = endless(id, 5, 2);
        request.priority = id == 3 ? -1 : (id == 1 ? 7 : 0);
        simulation.add(request);
    }
    std::vector<SequenceId> order;
    while (simulation.scheduler.has_work()) {
        simulation.plan();
        for (const AddedSequence& added : simulation.last_plan.added)
            order.push_back(added.sequence);
        simulation.commit();
    }
    CHECK(order == std::vector<SequenceId>{3, 2, 4, 1});
    CHECK(simulation.all_well());
}

TEST_CASE("nobody comes in who would be preempted as soon as the running grow") {
    SchedulerConfig config = small_config();
    Simulation simulation(config, small_cache(9), kEndless);
    simulation.add(endless(1, 12, 20));  // 3 blocks, 8 at the end
    simulation.add(endless(2, 20, 8));   // 5 blocks, 7 at the end
    simulation.step();
    // 5 of the 6 free blocks would do, but the first sequence wants one within the next step.
    CHECK(simulation.last_plan.entries.size() == 2);
    simulation.add(endless(3, 1, 2));
    simulation.step();
    CHECK(simulation.scheduler.find(3)->state == SequenceState::waiting);
    simulation.run();
    CHECK(simulation.scheduler.stats().preemptions == 1);
    CHECK(simulation.all_well());
}

TEST_CASE("one block is left for each running sequence that may want another") {
    SchedulerConfig config = small_config();
    const auto second_comes_in = [&](int32_t num_blocks, int32_t max_tokens_of_first) {
        Simulation simulation(config, small_cache(num_blocks), kEndless);
        simulation.add(endless(1, 12, max_tokens_of_first));
        simulation.step();
        simulation.add(endless(2, 12, 2));
        simulation.step();
        return simulation.scheduler.find(2)->state == SequenceState::running;
    };
    CHECK_FALSE(second_comes_in(7, 12));  // 4 are taken by the second step, 3 are left
    CHECK(second_comes_in(8, 12));
    CHECK(second_comes_in(7, 5));  // the first one has all it will ever want
}

TEST_CASE("a victim that was planned in the same step leaves its tokens to others") {
    SchedulerConfig config = small_config();
    config.policy = "priority";
    config.max_num_batched_tokens = 8;
    Simulation simulation(config, small_cache(22), kEndless);
    Request patient = endless(1, 4, 30);
    patient.priority = 5;
    simulation.add(patient);
    simulation.step();
    // Blocks are wanted by the second at step 9, the first at 10, the second at 13: none is left.
    simulation.add(endless(2, 2, 30));
    for (int i = 0; i < 5; ++i) simulation.step();
    simulation.add(endless(3, 60, 3));
    while (simulation.scheduler.stats().preemptions == 0) REQUIRE(simulation.step());
    CHECK(simulation.scheduler.stats().steps == 13);
    CHECK(simulation.last_plan.removed == std::vector<SequenceId>{1});
    CHECK(simulation.last_plan.added.empty());
    CHECK(simulation.last_plan.num_tokens() == 8);
    simulation.run();
    CHECK(simulation.all_well());
}

}  // namespace
}  // namespace nvllm
