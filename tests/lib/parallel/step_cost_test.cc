// Costs against sums by hand.
#include "lib/parallel/step_cost.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace nvllm;

namespace {

// Four blocks of 1 MB and 0.1 MB of cache for each 1,000 tokens, on a machine of round figures.
ModelCost small_model() {
    ModelCost model;
    model.blocks.assign(4, {1'000'000, 0, 2, 100});
    model.embedding_bytes = 500'000;
    model.head_bytes = 500'000;
    model.is_vocabulary_cut = true;
    model.hidden_size = 100;
    model.vocab_size = 1000;
    return model;
}

MachineSpec round_machine() {
    return {"round", 1e9, 1e12, uint64_t{1} << 30, 2, 4, {1e8, 1e-5}, {1e7, 1e-4}};
}

}  // namespace

TEST_CASE("one rank reads its weights and its cache") {
    const StepLoad load{10, 1000};
    const StepCost cost = step_cost(small_model(), {}, {}, round_machine(), load);
    // 4 MB of blocks, 0.5 MB of the head, 4 blocks x 100 B x 10,000 tokens.
    CHECK(cost.read_s == doctest::Approx((4.5e6 + 4e6) / 1e9));
    CHECK(cost.link_s == 0.0);
    CHECK(cost.rank_bytes == 0);
    CHECK(cost.messages == 0);
    CHECK(cost.weight_bytes == 5'000'000);
    CHECK(cost.kv_bytes == 4'000'000);
    CHECK(cost.latency_s == cost.stage_s);
    CHECK(cost.tokens_per_s(load) == doctest::Approx(10 / cost.stage_s));
}

TEST_CASE("ranks that share layers send the bytes of the formulas") {
    const StepLoad load{10, 1000};
    const ParallelSizes sizes{.tensor = 2};
    const StepCost cost = step_cost(small_model(), sizes, {}, round_machine(), load);
    // Nine sums of 10 x 100 x 4 bytes, and logits of 10 x 1,000 x 4.
    CHECK(cost.rank_bytes == 9 * 2 * 4000 + 40000);
    CHECK(cost.messages == 10);
    CHECK(cost.link_s == doctest::Approx(9 * (2e-5 + 4000 / 1e8) + 1e-5 + 20000 / 1e8));
    // On two hosts.
    const ParallelSizes more{.tensor = 4};
    const StepCost slower = step_cost(small_model(), more, {}, round_machine(), load);
    CHECK(slower.link_s > 9 * 2e-4);
}

TEST_CASE("stages take turns: a step ends as often as the slowest stage does") {
    const StepLoad load{10, 1000};
    const ParallelSizes sizes{.tensor = 1, .pipeline = 2};
    const std::vector<PipelineStage> stages = {{0, 2}, {2, 2}};
    const StepCost cost = step_cost(small_model(), sizes, stages, round_machine(), load);
    CHECK(cost.rank_bytes == 4000);
    CHECK(cost.stage_s < cost.latency_s);
    CHECK(cost.stage_s == doctest::Approx((2.5e6 + 2e6) / 1e9));
    CHECK(cost.weight_bytes == 2'500'000);
    CHECK(cost.kv_bytes == 4'000'000);  // of two groups of sequences
}

TEST_CASE("of experts a step reads those that some token chooses") {
    ModelCost model = small_model();
    for (BlockCost& block : model.blocks) block.expert_bytes = 800'000;
    model.num_experts = 8;
    model.experts_per_token = 2;
    const StepCost one = step_cost(model, {}, {}, round_machine(), {1, 0});
    CHECK(one.read_s == doctest::Approx((4 * (0.2e6 + 0.8e6 / 4) + 0.5e6) / 1e9));
    const StepCost many = step_cost(model, {}, {}, round_machine(), {1000, 0});
    CHECK(many.read_s == doctest::Approx(4.5e6 / 1e9).epsilon(0.001));
    CHECK(many.compute_s > one.compute_s);
}

TEST_CASE("experts on several ranks compute the tokens of all replicas") {
    ModelCost model = small_model();
    for (BlockCost& block : model.blocks) {
        block.expert_bytes = 800'000;
        block.sums = 0;
    }
    model.is_vocabulary_cut = false;
    model.num_experts = 8;
    model.experts_per_token = 1;
    model.expert_ranks = 4;
    model.expert_replicas = 4;
    const StepLoad load{10, 0};
    const StepCost cost = step_cost(model, {}, {}, round_machine(), load);
    // Of ten rows of 100 x 4 bytes three quarters go to other ranks, and results come back.
    CHECK(cost.rank_bytes == 4 * 2 * 3000);
    CHECK(cost.messages == 4 * 4);
    CHECK(cost.link_s == doctest::Approx(4 * (4 * 1e-4 + 6000 / 1e7)));  // between hosts
    const double chosen = 1.0 - std::pow(7.0 / 8.0, 40.0);
    CHECK(cost.read_s == doctest::Approx((4 * (0.2e6 + 0.8e6 * chosen) + 0.5e6) / 1e9));
    CHECK(cost.compute_s ==
          doctest::Approx(2.0 / 2.0 * ((4 * 0.2e6 + 0.5e6) * 10 + 4 * 0.8e6 / 8 * 40) / 1e12));
    REQUIRE(cost.stages.size() == 1);
    CHECK(cost.stages[0].total_s() == cost.stage_s);
    // A tensor group of two gathers its rows besides.
    model.expert_replicas = 2;
    const ParallelSizes sizes{.tensor = 2};
    CHECK(step_cost(model, sizes, {}, round_machine(), load).rank_bytes == 4 * (2 * 3000 + 4000));
}

TEST_CASE("machines that are known have all their figures") {
    for (const MachineSpec& machine : known_machines()) {
        CHECK(machine.read_bytes_per_s > 1e11);
        CHECK(machine.operations_per_s > machine.read_bytes_per_s);
        CHECK(machine.within.bytes_per_s > machine.between.bytes_per_s);
    }
}
