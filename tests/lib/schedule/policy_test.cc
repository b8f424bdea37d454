// What each policy prefers, and that none of them lets anybody starve.
#include "lib/schedule/policy.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

SchedulerConfig with_policy(const std::string& policy, int32_t max_num_seqs) {
    SchedulerConfig config = small_config();
    config.policy = policy;
    config.max_num_seqs = max_num_seqs;
    return config;
}

// Ids in the order of coming in.
std::vector<SequenceId> order_of_coming_in(Simulation& simulation) {
    std::vector<SequenceId> order;
    while (simulation.scheduler.has_work()) {
        if (simulation.plan()) {
            for (const AddedSequence& added : simulation.last_plan.added)
                order.push_back(added.sequence);
        }
        simulation.commit();
    }
    return order;
}

TEST_CASE("sjf: fewest tokens remaining first") {
    Simulation simulation(with_policy("sjf", 1), small_cache(), kEndless);
    simulation.add(endless(1, 5, 40));
    simulation.add(endless(2, 30, 2));
    simulation.add(endless(3, 2, 4));
    CHECK(order_of_coming_in(simulation) == std::vector<SequenceId>{3, 2, 1});
    CHECK(simulation.all_well());
}

TEST_CASE(
    "round-robin: a slot changes hands after each time slice, and nothing is computed twice") {
    Simulation simulation(with_policy("round-robin", 1), small_cache(), kEndless);
    for (RequestId id = 1; id <= 3; ++id) simulation.add(endless(id, 4, 40));
    std::vector<SequenceId> turns;
    while (simulation.scheduler.has_work()) {
        if (simulation.plan()) {
            const SequenceId now = simulation.last_plan.entries.at(0).sequence;
            if (turns.empty() || turns.back() != now) turns.push_back(now);
        }
        simulation.commit();
    }
    // 40 steps each: slices of 16, 16 and 8.
    CHECK(turns == std::vector<SequenceId>{1, 2, 3, 1, 2, 3, 1, 2, 3});
    CHECK(simulation.scheduler.stats().pauses == 6);
    CHECK(simulation.scheduler.stats().preemptions == 0);
    CHECK(simulation.worker.computed_positions == 3 * 43);
    CHECK(simulation.all_well());
}

Sequence of_length(int32_t num_prompt, double arrival_s) {
    Request request = endless(1, num_prompt, 10);
    request.arrival_s = arrival_s;
    Sequence sequence = Sequence::waiting(request, 1, 0);
    sequence.longest_length = num_prompt + 10;
    return sequence;
}

TEST_CASE("hybrid: three queues by length, promotion after each queue's limit") {
    const SchedulingPolicy& hybrid = find_policy("hybrid");
    const auto rank = [&](int32_t length, double waited) {
        return hybrid.rank(of_length(length, 0.0), waited);
    };
    CHECK(rank(99, 0.0) < rank(100, 0.0));
    CHECK(rank(500, 0.0) < rank(501, 0.0));
    // Within a queue: 100 + 5 a minute - 0.1 a token.
    CHECK(rank(20, 0.0) == doctest::Approx(-(100.0 - 3.0)));
    CHECK(rank(20, 0.03) == doctest::Approx(-(100.0 - 3.0 + 0.0025)));
    CHECK(rank(40, 0.0) > rank(20, 0.0));
    // Beyond 1 s, 200 ms and 50 ms it stands one queue up, at last before all.
    CHECK(rank(600, 0.9) > rank(300, 0.0));
    CHECK(rank(600, 1.1) < rank(300, 0.0) + 1e9);
    CHECK(rank(600, 1.1) > rank(99, 0.0));
    CHECK(rank(600, 1.3) < rank(300, 0.0));
    CHECK(rank(600, 1.3) > rank(99, 0.0) - 1e9);
    CHECK(rank(600, 1.27) < rank(99, 0.0));
}

TEST_CASE("hybrid: a long request pauses for a short one and keeps what it has computed") {
    SchedulerConfig config = with_policy("hybrid", 1);
    config.max_num_batched_tokens = 256;
    config.max_model_len = 1024;
    Simulation simulation(config, small_cache(400), kEndless);
    simulation.step_s = 1e-4;
    simulation.add(endless(1, 600, 40));
    for (int i = 0; i < kTimeSliceSteps; ++i) REQUIRE(simulation.step());
    simulation.add(endless(2, 10, 3));
    REQUIRE(simulation.step());
    CHECK(simulation.scheduler.find(1)->state == SequenceState::paused);
    CHECK(simulation.scheduler.find(2)->state == SequenceState::running);
    simulation.run();
    CHECK(simulation.scheduler.stats().pauses == 1);
    CHECK(simulation.scheduler.stats().preemptions == 0);
    CHECK(simulation.worker.computed_positions == 639 + 12);
    CHECK(simulation.all_well());
}

// A request that the policy likes least, while others that it prefers keep coming: it finishes
// within so many steps of one slot, whatever the policy.
TEST_CASE("no sequence starves: a bound on waiting for every policy") {
    for (const SchedulingPolicy& policy : scheduling_policies()) {
        Simulation simulation(with_policy(policy.name, 2), small_cache(24), kEndless);
        Request unloved = endless(1, 40, 30);
        unloved.priority = 9;
        for (RequestId id = 2; id <= 5; ++id) simulation.add(endless(id, 3, 4));
        simulation.add(unloved);
        RequestId next = 6;
        int steps = 0;
        while (!simulation.finished.contains(5) && steps < 2000) {
            simulation.add(endless(next++, 3, 4));
            simulation.step();
            ++steps;
        }
        CAPTURE(std::string(policy.name));
        MESSAGE(std::string(policy.name), ": finished after ", steps, " steps of others' load");
        // Eight others are admitted before it, two at a time; then it has a slot.
        CHECK(steps <= 150);
        for (RequestId id = 1; id < next; ++id) simulation.scheduler.cancel(id);
    }
}

TEST_CASE("an unknown policy names those that are known") {
    CHECK_THROWS_WITH_AS(find_policy("fifo"),
                         "--scheduling-policy is \"fifo\"; it must be one of: fcfs, sjf, "
                         "round-robin, priority, hybrid",
                         Error);
}

}  // namespace
}  // namespace nvllm
