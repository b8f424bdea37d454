// What a worker knows of sequences after each plan and each result.
#include "lib/execute/worker_sequences.h"

#include <doctest/doctest.h>

#include "kernels/error.h"

using namespace nvllm;

namespace {

BatchPlan plan_that_adds(int32_t adapter = 0) {
    BatchPlan plan;
    AddedSequence& added = plan.added.emplace_back();
    added.sequence = 4;
    added.token_ids = {10, 11, 12};
    added.num_prompt_tokens = 2;
    added.sampling.seed = 1;
    added.sampling.prompt_logprobs = 0;
    added.adapter = adapter;
    added.block_tables = {{3}};
    PlanEntry& entry = plan.entries.emplace_back();
    entry.sequence = 4;
    entry.count = 3;
    entry.new_token_ids = {13};
    entry.new_blocks = {{5}, {6, 7}};
    return plan;
}

}  // namespace

TEST_CASE("plans add, extend, move and remove sequences") {
    WorkerSequences sequences(2, false, false);
    sequences.update(plan_that_adds());
    const WorkerSequence& sequence = sequences.at(4);
    CHECK(sequence.token_ids == std::vector<int32_t>{10, 11, 12, 13});
    CHECK(sequence.block_tables == std::vector<std::vector<int32_t>>{{3, 5}, {6, 7}});
    CHECK_FALSE(sequence.samples_on_device);
    BatchPlan next;
    next.table_changes.push_back({.owner = 4, .group = 1, .index = 0, .block = 9});
    sequences.update(next);
    CHECK(sequence.block_tables[1] == std::vector<int32_t>{9, 7});
    next = {};
    next.removed = {4};
    sequences.update(next);
    CHECK(sequences.find(4) == nullptr);
}

TEST_CASE("accepted tokens are known tokens, and a removed sequence gets none") {
    WorkerSequences sequences(2, false, false);
    sequences.update(plan_that_adds());
    StepResult result;
    result.sequences.resize(2);
    result.sequences[0].sequence = 4;
    result.sequences[0].token_ids = {20, 21};
    result.sequences[1].sequence = 99;
    result.sequences[1].token_ids = {30};
    sequences.accept(result);
    CHECK(sequences.at(4).token_ids == std::vector<int32_t>{10, 11, 12, 13, 20, 21});
    CHECK(sequences.at(4).sampling.num_generated() == 3);
    CHECK(sequences.find(99) == nullptr);
}

TEST_CASE("a sequence is added once, with frequencies that the model has") {
    WorkerSequences sequences(2, false, false);
    sequences.update(plan_that_adds());
    CHECK_THROWS_AS(sequences.update(plan_that_adds()), Error);
    BatchPlan plan = plan_that_adds();
    plan.removed = {4};
    plan.added[0].rope_choice = 1;
    CHECK_THROWS_AS(sequences.update(plan), Error);
}

TEST_CASE("an adapter is refused by its number") {
    WorkerSequences sequences(2, false, false);
    sequences.update(plan_that_adds(3));
    REQUIRE(sequences.at(4).refusal);
    CHECK(sequences.at(4).refusal->message.find("adapter 3") != std::string::npos);
}

TEST_CASE("prompt logprobs are those of the entry's rows within the prompt") {
    WorkerSequences sequences(2, false, false);
    sequences.update(plan_that_adds());
    PlanEntry entry;
    entry.count = 3;
    CHECK(sequences.at(4).num_prompt_logprobs(entry) == 1);
    entry.first = 1;
    CHECK(sequences.at(4).num_prompt_logprobs(entry) == 0);
}

TEST_CASE("draft rows are sampled on the device unless a choice depends on tokens before it") {
    BatchPlan plan = plan_that_adds();
    plan.added[0].sampling.prompt_logprobs.reset();
    WorkerSequences sequences(2, false, true);
    sequences.update(plan);
    CHECK(sequences.at(4).is_sampled_on_device(true));
    plan.removed = {4};
    plan.added[0].sampling.presence_penalty = 0.5f;
    sequences.update(plan);
    CHECK(sequences.at(4).is_sampled_on_device(false));
    CHECK_FALSE(sequences.at(4).is_sampled_on_device(true));
}
