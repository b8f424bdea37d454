// Draft tokens: planned, verified, rolled back.
#include "lib/schedule/planning/draft_planner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "tests/lib/schedule/parts.h"
#include "tests/lib/schedule/random_drafts.h"

namespace nvllm {
namespace {

// Always as many drafts as it may, all right or all wrong.
class FixedDrafts : public DraftProposer {
  public:
    FixedDrafts(int32_t count, bool right) : count_(count), right_(right) {}
    DraftTokens propose(const Sequence& sequence, const std::string&) override {
        DraftTokens drafts;
        std::vector<int32_t> tokens = sequence.token_ids;
        for (int32_t i = 0; i < count_; ++i) {
            tokens.push_back(kEndless.next(prefix_digests(tokens).back(), sequence.index) +
                             (right_ ? 0 : 1));
            drafts.token_ids.push_back(tokens.back());
        }
        return drafts;
    }

  private:
    int32_t count_;
    bool right_;
};

TEST_CASE("right drafts make several tokens a step") {
    FixedDrafts drafts(3, true);
    Simulation simulation(small_config(), small_cache(), kEndless, &drafts);
    simulation.add(endless(1, 6, 9));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 0, 6}});
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 6, 4}});
    CHECK(simulation.last_plan.extras.at(0).drafts.size() == 3);
    CHECK(simulation.scheduler.find(1)->num_generated() == 5);
    simulation.step();
    // 4 tokens are left: 3 drafts and the one after them.
    CHECK(entries(simulation) == Rows{{1, 10, 4}});
    CHECK(simulation.finished.at(1).num_generated() == 9);
    CHECK(simulation.scheduler.stats().steps == 3);
    CHECK(simulation.scheduler.stats().prefill_tokens == 6);
    CHECK(simulation.all_well());
}

TEST_CASE("wrong drafts change nothing but the number of computed positions") {
    FixedDrafts drafts(3, false);
    Simulation simulation(small_config(), small_cache(), kEndless, &drafts);
    simulation.add(endless(1, 6, 9));
    for (int i = 0; i < 3; ++i) {
        simulation.step();
        simulation.scheduler.check_integrity();
    }
    CHECK(entries(simulation) == Rows{{1, 7, 4}});
    // 11 positions were written; the block of the rejected ones is used by the next step.
    CHECK(simulation.cache.stats().blocks.used == 3);
    simulation.run();
    CHECK(simulation.finished.at(1).num_generated() == 9);
    CHECK(simulation.scheduler.stats().steps == 9);
    CHECK(simulation.worker.drafts_accepted == 0);
    CHECK(simulation.worker.drafts_rejected > 0);
    // The prefix cache holds no rejected token: the same text is found and continues.
    Request again = endless(2, 6, 4);
    again.prompt_token_ids = simulation.finished.at(1).token_ids;
    simulation.add(again);
    simulation.run();
    CHECK(simulation.finished.at(2).num_cached_tokens == 12);
    CHECK(simulation.all_well());
}

TEST_CASE("a stop id among the accepted drafts ends the sequence there") {
    FixedDrafts drafts(5, true);
    Simulation plain(small_config(), small_cache(), kEndless);
    plain.add(endless(1, 6, 20));
    plain.run();
    Request request = endless(1, 6, 20);
    request.sampling.stop_token_ids = {plain.finished.at(1).generated()[3]};
    Simulation simulation(small_config(), small_cache(), kEndless, &drafts);
    simulation.add(request);
    simulation.step();
    simulation.plan();
    const StopDecision decision = simulation.scheduler.check_stop(simulation.results[0])[0];
    CHECK(decision.num_accepted == 3);
    CHECK(decision.finish == FinishReason::stop);
    simulation.scheduler.commit(simulation.results[0], {decision}, 9.0);
    const Sequence& sequence = *simulation.scheduler.find(1);
    CHECK(sequence.num_generated() == 4);
    CHECK(sequence.num_computed == 9);
    simulation.results.clear();
    simulation.wrong = 0;
    CHECK(simulation.all_well());
}

TEST_CASE("drafts of the worker are planned next, and not when they are stale") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 6, 20));
    simulation.plan();
    simulation.results[0].extras = {
        {.entry = 0, .accepted_rows = {}, .next_drafts = {.token_ids = {4, 5}, .parents = {}}}};
    simulation.commit();
    SUBCASE("planned") {
        simulation.step();
        CHECK(entries(simulation) == Rows{{1, 6, 3}});
        simulation.step();
        CHECK(entries(simulation) == Rows{{1, 7, 1}});
    }
    SUBCASE("stale") {
        simulation.limits.max_tokens = 1;
        simulation.step();
        CHECK(entries(simulation) == Rows{{1, 6, 1}});
        CHECK(simulation.last_plan.extras.empty());
        simulation.limits = {};
        simulation.step();
        CHECK(entries(simulation) == Rows{{1, 7, 1}});
    }
    simulation.run();
    CHECK(simulation.all_well());
}

SchedulerConfig by_worker(bool adaptive) {
    SchedulerConfig config = small_config();
    config.speculation.method = "draft_model";
    config.speculation.by_worker = true;
    config.speculation.num_speculative_tokens = 3;
    config.speculation.adaptive = adaptive;
    return config;
}

// Of each entry of the last plan, the drafts that it asks for.
std::vector<int32_t> asked_for(const Simulation& simulation) {
    std::vector<int32_t> counts(simulation.last_plan.entries.size(), 0);
    for (const EntryExtras& extras : simulation.last_plan.extras) {
        counts[extras.entry] = extras.num_next_drafts;
    }
    return counts;
}

TEST_CASE("a worker's model is asked for the drafts of the next entry") {
    Simulation simulation(by_worker(false), small_cache(), kEndless);
    RandomDrafts drafts(kEndless, 3, 3, 0);
    simulation.worker.propose = [&](std::span<const int32_t> tokens, int32_t index) {
        return drafts.draft(tokens, index);
    };
    Request off = endless(2, 5, 12);
    off.speculative = false;
    simulation.add(endless(1, 6, 12));
    simulation.add(off);
    simulation.step();
    CHECK(asked_for(simulation) == std::vector<int32_t>{3, 0});
    while (simulation.num_finished < 2) {
        simulation.step();
        for (size_t i = 0; i < simulation.last_plan.entries.size(); ++i) {
            const PlanEntry& entry = simulation.last_plan.entries[i];
            // The longest text has 18 tokens. After those that are known come one that this step
            // chooses, the drafts, and one after them.
            const int32_t known = entry.first + 1;
            const int32_t most = entry.sequence == 1 ? std::clamp(18 - known - 2, 0, 3) : 0;
            CHECK(asked_for(simulation)[i] == most);
        }
    }
    CHECK(simulation.scheduler.stats().speculation.accepted_tokens > 0);
    CHECK(simulation.all_well());
}

TEST_CASE("no drafts are asked for while a prompt goes on, unless always") {
    for (const bool adaptive : {true, false}) {
        SchedulerConfig config = by_worker(adaptive);
        config.max_num_batched_tokens = 8;
        Simulation simulation(config, small_cache(), kEndless);
        simulation.add(endless(1, 4, 30));
        simulation.step();
        simulation.add(endless(2, 20, 3));
        simulation.step();
        REQUIRE(entries(simulation).size() == 2);
        CHECK(asked_for(simulation) == std::vector<int32_t>{adaptive ? 0 : 3, 0});
    }
}

TEST_CASE("drafts get only what is left of tokens and blocks, and preempt no sequence") {
    FixedDrafts drafts(6, true);
    SUBCASE("tokens") {
        SchedulerConfig config = small_config();
        config.max_num_batched_tokens = 8;
        Simulation simulation(config, small_cache(), kEndless, &drafts);
        simulation.add(endless(1, 4, 30));
        simulation.step();
        simulation.add(endless(2, 5, 30));
        simulation.step();
        CHECK(entries(simulation) == Rows{{1, 4, 3}, {2, 0, 5}});
        simulation.run();
        CHECK(simulation.all_well());
    }
    SUBCASE("blocks") {
        Simulation simulation(small_config(), small_cache(8), kEndless, &drafts);
        for (RequestId id = 1; id <= 2; ++id) simulation.add(endless(id, 8, 6));
        simulation.run();
        CHECK(simulation.scheduler.stats().preemptions == 0);
        CHECK(simulation.all_well());
    }
    SUBCASE("the end of the sequence") {
        Simulation simulation(small_config(), small_cache(3), kEndless, &drafts);
        simulation.add(endless(1, 8, 3));
        simulation.run();
        CHECK(simulation.finished.at(1).num_generated() == 3);
        CHECK(simulation.all_well());
    }
}

TEST_CASE("a plan with drafts is waited for, in any number of plans in flight") {
    FixedDrafts drafts(2, true);
    SchedulerConfig config = small_config();
    config.pipeline_depth = 4;
    config.max_num_batched_tokens = 8;
    bool ahead = false;
    SUBCASE("tokens are known") {}
    SUBCASE("tokens are planned ahead") { ahead = true; }
    if (ahead) config.may_plan_ahead = [](const SamplingParams&) { return true; };
    Simulation simulation(config, small_cache(), kEndless, &drafts);
    simulation.add(endless(1, 4, 30));
    simulation.step();
    REQUIRE(simulation.plan());
    CHECK(entries(simulation) == Rows{{1, 4, 3}});
    CHECK_FALSE(simulation.plan());
    simulation.add(endless(2, 20, 3));
    CHECK(simulation.plan() != ahead);
    simulation.scheduler.check_integrity();
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("accepted drafts of a tree are computed, wherever their rows were") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 6, 20));
    simulation.plan();
    // Rows 1 and 2 follow the last token, row 3 follows row 2.
    simulation.results[0].extras = {
        {.entry = 0,
         .accepted_rows = {},
         .next_drafts = {.token_ids = {4, 5, 6}, .parents = {0, 0, 2}}}};
    simulation.commit();
    std::optional<BatchPlan> plan = simulation.scheduler.next(5.0);
    REQUIRE(plan.has_value());
    CHECK(plan->entries.at(0).count == 4);
    CHECK(plan->extras.at(0).drafts.parents == std::vector<int32_t>{0, 0, 2});
    StepResult result{.plan_number = plan->number, .sequences = std::vector<SequenceStep>(1)};
    result.sequences[0].sequence = 1;
    result.sequences[0].token_ids = {5, 6, 9};
    result.extras = {{.entry = 0, .accepted_rows = {2, 3}, .next_drafts = {}}};
    simulation.scheduler.commit(result, simulation.scheduler.check_stop(result), 6.0);
    simulation.scheduler.check_integrity();
    const Sequence& sequence = *simulation.scheduler.find(1);
    CHECK(sequence.num_generated() == 4);
    CHECK(sequence.num_computed == 9);
    plan = simulation.scheduler.next(7.0);
    REQUIRE(plan.has_value());
    CHECK(plan->entries.at(0).first == 9);
    CHECK(plan->entries[0].count == 1);
}

TEST_CASE("more accepted drafts than were planned are our mistake") {
    FixedDrafts drafts(2, true);
    Simulation simulation(small_config(), small_cache(), kEndless, &drafts);
    simulation.add(endless(1, 6, 20));
    simulation.step();
    simulation.plan();
    StepResult& result = simulation.results[0];
    result.sequences[0].token_ids = {1, 2, 3, 4};
    CHECK_THROWS_AS(
        simulation.scheduler.commit(result, simulation.scheduler.check_stop(result), 9.0), Error);
}

TEST_CASE("outputs do not depend on drafts") {
    for (const int32_t percent_wrong : {0, 20, 60, 100}) {
        RandomDrafts drafts(TokenRule{}, 5, 6, percent_wrong, percent_wrong % 40 != 0);
        SchedulerConfig config = small_config();
        config.pipeline_depth = 1 + percent_wrong % 3;
        Simulation simulation(config, small_cache(40), {}, &drafts);
        for (RequestId id = 1; id <= 20; ++id) {
            simulation.add(make_request(id, counting_tokens(static_cast<int32_t>(id) % 3, 9), 60));
        }
        simulation.run();
        CHECK(simulation.num_finished == 20);  // check_finished() compares the tokens
        CHECK(simulation.all_well());
    }
}

}  // namespace
}  // namespace nvllm
