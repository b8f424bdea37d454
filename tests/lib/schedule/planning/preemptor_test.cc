// Which sequences are preempted when blocks run out; all of them finish.
#include "lib/schedule/planning/preemptor.h"

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
        // Under the other policies a shorter sequence may rank before the first.
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

TEST_CASE("the policy orders admission and preemption") {
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

TEST_CASE("no sequence is admitted that would be preempted as soon as running ones grow") {
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

TEST_CASE("the last block goes to the sequence that ranks first, without a preemption") {
    SchedulerConfig config = small_config();
    config.policy = "priority";
    Simulation simulation(config, small_cache(5), kEndless);
    Request patient = endless(1, 7, 4);
    patient.priority = 5;
    simulation.add(patient);
    simulation.step();
    simulation.add(endless(2, 8, 4));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 7, 1}, {2, 0, 8}});
    // Both want a third block, and one is left.
    simulation.step();
    CHECK(entries(simulation) == Rows{{2, 8, 1}});
    simulation.run();
    CHECK(simulation.num_finished == 2);
    CHECK(simulation.scheduler.stats().preemptions == 0);
    CHECK(simulation.all_well());
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

// Room for four sequences of full length; without prefix caching, so that what is computed again
// and what is copied can be counted exactly.
struct Crowd {
    explicit Crowd(PreemptionMode mode, int32_t num_host_blocks = 2000)
        : simulation(config(mode), cache(num_host_blocks), kEndless) {
        for (RequestId id = 1; id <= 64; ++id) {
            const int32_t num_prompt = 50 + static_cast<int32_t>(id * 37 % 400);
            simulation.add(endless(id, num_prompt, 1000 - num_prompt));
        }
        simulation.run();
        for (const auto& [id, sequence] : simulation.finished) {
            max_preemptions = std::max(max_preemptions, sequence.num_preemptions);
        }
    }

    static SchedulerConfig config(PreemptionMode mode) {
        SchedulerConfig config;
        config.max_num_seqs = 64;
        config.max_num_batched_tokens = 512;
        config.max_model_len = 1024;
        config.preemption_mode = mode;
        config.block_bytes = {1 << 20};
        return config;
    }
    static CacheConfig cache(int32_t num_host_blocks) {
        return {.block_size = 16,
                .groups = {{4 * 63, 0, num_host_blocks}},
                .enable_prefix_caching = false,
                .hash_key = HashKey{1, 2}};
    }

    Simulation simulation;
    int32_t max_preemptions = 0;
};

TEST_CASE("64 sequences of 1,000 tokens where four fit: at most four preemptions each") {
    for (const PreemptionMode mode :
         {PreemptionMode::recompute, PreemptionMode::swap, PreemptionMode::automatic}) {
        Crowd crowd(mode);
        const SchedulerStats stats = crowd.simulation.scheduler.stats();
        MESSAGE(static_cast<int>(mode), ": ", stats.preemptions, " preemptions, at most ",
                crowd.max_preemptions, " of one; ", stats.steps, " steps; ", stats.swaps_out,
                " swapped out; ", stats.recomputed_tokens, " tokens computed again");
        CHECK(crowd.simulation.num_finished == 64);
        CHECK(crowd.max_preemptions <= 4);
        CHECK(crowd.simulation.all_well());
    }
}

TEST_CASE("swapping computes nothing again, recomputing moves nothing") {
    const int64_t once = 64 * 999;  // the last token of an answer is never computed
    Crowd swapping(PreemptionMode::swap);
    CHECK(swapping.simulation.worker.computed_positions == once);
    CHECK(swapping.simulation.worker.blocks_out > 0);
    CHECK(swapping.simulation.worker.blocks_out == swapping.simulation.worker.blocks_in);
    CHECK(swapping.simulation.scheduler.stats().recomputed_tokens == 0);
    Crowd recomputing(PreemptionMode::recompute);
    const int64_t again = recomputing.simulation.scheduler.stats().recomputed_tokens;
    CHECK(recomputing.simulation.worker.blocks_out + recomputing.simulation.worker.blocks_in == 0);
    CHECK(again > 0);
    CHECK(recomputing.simulation.worker.computed_positions == once + again);
    // With little room in host memory some are swapped and the others computed again.
    Crowd mixed(PreemptionMode::swap, 100);
    const SchedulerStats stats = mixed.simulation.scheduler.stats();
    CHECK(stats.swaps_out > 0);
    CHECK(stats.swaps_out < stats.preemptions);
    CHECK(mixed.simulation.worker.computed_positions == once + stats.recomputed_tokens);
}

TEST_CASE("the faster way is chosen from what was measured") {
    PreemptionCosts costs;
    // 1 GB/s, and a token of prefill in 2 ms: 100 tokens take 200 ms, 50 MB out and in 100 ms.
    for (int i = 0; i < 50; ++i) {
        costs.observe({.step_ms = 512.0,
                       .num_tokens = 256,
                       .num_prefill_tokens = 250,
                       .swapped_bytes = 10'000'000,
                       .swap_ms = 10.0});
    }
    CHECK(costs.swap_is_faster(50'000'000, 100));
    CHECK_FALSE(costs.swap_is_faster(50'000'000, 49));
    CHECK_FALSE(costs.swap_is_faster(101'000'000, 100));
    // Steps of decoding say nothing about prefill.
    costs.observe({.step_ms = 100.0, .num_tokens = 8, .num_prefill_tokens = 0});
    CHECK(costs.swap_is_faster(50'000'000, 100));
}

}  // namespace
}  // namespace nvllm
