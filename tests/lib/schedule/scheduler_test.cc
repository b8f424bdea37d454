// The budget of a step, plans that overlap, and what is our mistake.
#include "lib/schedule/scheduler.h"

#include <doctest/doctest.h>

#include <vector>

#include "kernels/error.h"
#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

TEST_CASE("tokens of prompts and of answers are counted apart") {
    SchedulerConfig config = small_config();
    config.chunk_size = 4;
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 9, 3));
    simulation.step();
    simulation.step();
    CHECK(simulation.last_plan.num_prefill_tokens() == 4);
    simulation.add(endless(2, 5, 1));
    simulation.step();
    // The last chunk of the first prompt is one token that brings one, as in decode.
    CHECK(entries(simulation) == Rows{{1, 8, 1}, {2, 0, 4}});
    CHECK(simulation.last_plan.num_prefill_tokens() == 4);
    CHECK(simulation.last_plan.num_tokens() == 5);
    simulation.run();
    CHECK(simulation.scheduler.stats().prefill_tokens == 4 + 4 + 4);
    CHECK(simulation.scheduler.stats().scheduled_tokens == 9 + 2 + 5);
}

TEST_CASE("a prompt is computed, then one token a step, until max_tokens") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    REQUIRE(simulation.add(endless(1, 10, 3)) == std::vector<SequenceId>{1});
    CHECK(simulation.scheduler.has_work());
    REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 0, 10}});
    CHECK(simulation.last_plan.number == 1);
    CHECK(simulation.last_plan.added.size() == 1);
    CHECK(simulation.last_plan.entries[0].output == OutputKind::sample);
    CHECK(simulation.last_plan.entries[0].new_blocks[0].size() == 3);
    CHECK_FALSE(simulation.plan());
    CHECK(simulation.commit().empty());
    REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 10, 1}});
    CHECK(simulation.last_plan.added.empty());
    CHECK(simulation.last_plan.entries[0].new_blocks.empty());
    simulation.commit();
    REQUIRE(simulation.plan());
    CHECK(simulation.commit() == std::vector<SequenceId>{1});
    const Sequence& sequence = simulation.finished.at(1);
    CHECK(sequence.finish_reason == FinishReason::length);
    CHECK(sequence.num_generated() == 3);
    CHECK(sequence.first_scheduled_s == 1.0);
    CHECK(sequence.first_token_s == 3.0);
    CHECK(sequence.finished_s == 7.0);
    CHECK_FALSE(simulation.scheduler.has_work());
    CHECK_FALSE(simulation.plan());
    CHECK(simulation.scheduler.find(1) == nullptr);
    CHECK(simulation.all_well());
}

TEST_CASE("decodes come before chunks of prompts, and these before who waits") {
    SchedulerConfig config = small_config();
    config.max_num_batched_tokens = 16;
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 4, 20));
    simulation.step();
    simulation.add(endless(2, 24, 20));
    simulation.add(endless(3, 8, 20));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 4, 1}, {2, 0, 15}});
    CHECK(simulation.last_plan.entries[1].output == OutputKind::none);
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 5, 1}, {2, 15, 9}, {3, 0, 6}});
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 6, 1}, {2, 24, 1}, {3, 6, 2}});
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("chunk_size bounds a prompt's part of a step") {
    SchedulerConfig config = small_config();
    config.chunk_size = 5;
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 12, 2));
    simulation.add(endless(2, 3, 2));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 0, 5}, {2, 0, 3}});
    simulation.step();
    CHECK(entries(simulation) == Rows{{2, 3, 1}, {1, 5, 5}});
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("beside answers that go on, prompts have few tokens of a step") {
    SchedulerConfig config = small_config();
    config.mixed_prefill_tokens = 2;
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 6, 20));
    simulation.add(endless(2, 6, 20));
    simulation.add(endless(3, 6, 20));
    simulation.step();  // no sequence decodes yet
    CHECK(entries(simulation) == Rows{{1, 0, 6}, {2, 0, 6}, {3, 0, 6}});
    simulation.add(endless(4, 7, 4));
    simulation.add(endless(5, 2, 4));
    simulation.step();  // as many as there are answers
    CHECK(entries(simulation) == Rows{{1, 6, 1}, {2, 6, 1}, {3, 6, 1}, {4, 0, 3}});
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 7, 1}, {2, 7, 1}, {3, 7, 1}, {4, 3, 3}});
    simulation.step();  // a last single token counts as an answer's
    CHECK(entries(simulation) == Rows{{1, 8, 1}, {2, 8, 1}, {3, 8, 1}, {4, 6, 1}, {5, 0, 2}});
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("while few answers go on, prompts fill a step to the length it has with more") {
    SchedulerConfig config = small_config();
    config.mixed_prefill_tokens = 4;
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 6, 9));
    simulation.step();
    simulation.add(endless(2, 5, 9));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 6, 1}, {2, 0, 5}});
    simulation.add(endless(3, 7, 9));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 7, 1}, {2, 5, 1}, {3, 0, 4}});
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 8, 1}, {2, 6, 1}, {3, 4, 3}});
    simulation.add(endless(4, 5, 2));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 9, 1}, {2, 7, 1}, {3, 7, 1}, {4, 0, 4}});
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("a limit holds for the plans to come, unless it leaves nothing to be planned") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    for (RequestId id = 1; id <= 3; ++id) simulation.add(endless(id, 6, 9));
    simulation.limits = {.alone = 2, .max_tokens = {}};
    simulation.step();
    CHECK(entries(simulation) == Rows{{2, 0, 6}});
    simulation.step();
    CHECK(entries(simulation) == Rows{{2, 6, 1}});
    simulation.limits = {.alone = 3, .max_tokens = 4};
    simulation.step();
    CHECK(entries(simulation) == Rows{{3, 0, 4}});
    simulation.limits = {.alone = 77, .max_tokens = {}};
    simulation.step();
    CHECK(entries(simulation) == Rows{{2, 7, 1}, {3, 4, 2}, {1, 0, 6}});
    simulation.limits = {.alone = {}, .max_tokens = 2};
    simulation.step();
    CHECK(entries(simulation) == Rows{{2, 8, 1}, {3, 6, 1}});
    simulation.limits = {};
    simulation.run();
    CHECK(simulation.scheduler.stats().stalled_steps == 0);
    CHECK(simulation.all_well());
}

TEST_CASE("without chunks a prompt is computed whole or waits") {
    SchedulerConfig config = small_config();
    config.max_model_len = 32;
    config.enable_chunked_prefill = false;
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 20, 2));
    simulation.add(endless(2, 13, 2));
    simulation.add(endless(3, 2, 2));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 0, 20}});
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 20, 1}, {2, 0, 13}, {3, 0, 2}});
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("the engine may accept fewer tokens than the stop check") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 4, 50));
    simulation.plan();
    const StepResult result = simulation.results[0];
    std::vector<StopDecision> decisions = simulation.scheduler.check_stop(result);
    decisions[0].finish = FinishReason::stop;
    CHECK(simulation.scheduler.commit(result, decisions, 5.0) == std::vector<SequenceId>{1});
    CHECK(simulation.scheduler.find(1)->finish_reason == FinishReason::stop);
    CHECK(simulation.cache.stats().blocks.used == 0);
}

TEST_CASE("a configuration that contradicts itself is refused") {
    CacheManager cache(small_cache());
    const auto refused = [&](auto change) {
        SchedulerConfig config = small_config();
        change(config);
        try {
            Scheduler scheduler(config, cache);
        } catch (const Error& error) {
            return error.kind() == ErrorKind::bad_config;
        }
        return false;
    };
    CHECK_FALSE(refused([](SchedulerConfig&) {}));
    CHECK(refused([](SchedulerConfig& config) { config.max_num_seqs = 0; }));
    CHECK(refused([](SchedulerConfig& config) { config.max_num_batched_tokens = 7; }));
    CHECK(refused([](SchedulerConfig& config) { config.max_model_len = 1; }));
    CHECK(refused([](SchedulerConfig& config) { config.pipeline_depth = 0; }));
    CHECK(refused([](SchedulerConfig& config) { config.chunk_size = -1; }));
    CHECK(refused([](SchedulerConfig& config) { config.mixed_prefill_tokens = -1; }));
    CHECK(refused([](SchedulerConfig& config) { config.enable_chunked_prefill = false; }));
    CHECK(refused([](SchedulerConfig& config) { config.policy = "fastest"; }));
}

TEST_CASE(
    "two plans in flight: other sequences and further chunks, no sequence whose token is not "
    "known") {
    SchedulerConfig config = small_config();
    config.pipeline_depth = 2;
    config.max_num_batched_tokens = 8;
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 20, 3));
    simulation.add(endless(2, 3, 3));
    REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 0, 8}});
    REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 8, 8}});
    CHECK_FALSE(simulation.plan());
    simulation.commit();
    REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 16, 4}, {2, 0, 3}});
    simulation.commit();
    CHECK_FALSE(simulation.plan());
    CHECK(simulation.scheduler.num_in_flight() == 1);
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("a plan ahead computes tokens that are not known yet, up to the length of an answer") {
    SchedulerConfig config = small_config();
    config.pipeline_depth = 2;
    config.may_plan_ahead = [](const SamplingParams&) { return true; };
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 5, 3));
    REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 0, 5}});
    REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 5, 1}});
    simulation.commit();
    REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 6, 1}});
    simulation.commit();
    CHECK_FALSE(simulation.plan());  // its last token is on its way
    CHECK(simulation.commit() == std::vector<SequenceId>{1});
    CHECK(simulation.finished.at(1).token_ids.size() == 8);
    CHECK(simulation.all_well());
}

TEST_CASE("an output that ends early costs one token that is dropped") {
    SchedulerConfig config = small_config();
    config.pipeline_depth = 2;
    config.may_plan_ahead = [](const SamplingParams&) { return true; };
    const TokenRule rule{.vocab_size = 3};
    Simulation simulation(config, small_cache(), rule);
    for (RequestId id = 1; id <= 8; ++id) simulation.add(make_request(id, {1, 2, 1}, 40));
    int64_t generated = 0;
    for (RequestId id = 1; id <= 8; ++id) {
        simulation.run();
        const auto tokens = expected_tokens(make_request(id, {1, 2, 1}, 40), 0, rule, 128);
        generated += static_cast<int64_t>(tokens.size()) - 3;
    }
    CHECK(simulation.num_finished == 8);
    CHECK(simulation.scheduler.stats().scheduled_tokens <= 8 * 3 + generated);
    while (!simulation.results.empty()) simulation.commit();
    CHECK(simulation.all_well());
}

TEST_CASE("nothing is planned beside a plan whose tokens have to be waited for") {
    SchedulerConfig config = small_config();
    config.pipeline_depth = 2;
    config.may_plan_ahead = [](const SamplingParams& params) { return *params.seed != 2; };
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 5, 4));
    REQUIRE(simulation.plan());
    simulation.add(endless(2, 5, 2));
    REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 5, 1}, {2, 0, 5}});
    simulation.commit();
    CHECK_FALSE(simulation.plan());
    simulation.commit();
    REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 6, 1}, {2, 5, 1}});
    REQUIRE(simulation.plan());  // the second ends with that
    CHECK(entries(simulation) == Rows{{1, 7, 1}});
    simulation.run();
    while (!simulation.results.empty()) simulation.commit();
    CHECK(simulation.all_well());
}

TEST_CASE("KV of a plan in flight is not in the prefix cache before the commit") {
    SchedulerConfig config = small_config();
    config.pipeline_depth = 2;
    config.max_num_batched_tokens = 8;
    Simulation simulation(config, small_cache(), kEndless);
    simulation.add(endless(1, 20, 3));
    simulation.plan();
    simulation.plan();
    const auto found = [&] {
        SequenceBlocks probe(simulation.cache, "");
        return simulation.cache.match(probe, endless(1, 20, 3).prompt_token_ids).num_tokens;
    };
    CHECK(found() == 0);
    simulation.commit();
    CHECK(found() == 8);
    simulation.commit();
    CHECK(found() == 16);
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("results out of order or of another shape are our mistake") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 4, 5));
    CHECK_THROWS_AS(simulation.scheduler.check_stop(StepResult{}), Error);
    simulation.plan();
    StepResult result = simulation.results[0];
    CHECK_THROWS_AS(simulation.scheduler.commit(result, {}, 1.0), Error);
    result.plan_number = 2;
    CHECK_THROWS_AS(simulation.scheduler.check_stop(result), Error);
}

}  // namespace
}  // namespace nvllm
