// Requests for a vector: the step of the result, use of the cache, and preemption.
#include <doctest/doctest.h>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

Request pooled(RequestId id, int32_t num_prompt, PoolingKind kind, int32_t first_token = 1000) {
    Request request = make_request(id, counting_tokens(first_token, num_prompt), 0);
    request.sampling.max_tokens.reset();
    request.pooling = PoolingParams{.kind = kind};
    return request;
}

constexpr std::array<PoolingKind, 3> kKinds = {PoolingKind::last, PoolingKind::mean,
                                               PoolingKind::cls};

TEST_CASE("pooling: a prompt is computed in chunks and is done with its last token") {
    for (const PoolingKind kind : kKinds) {
        Simulation simulation(small_config(), small_cache());
        const SequenceId id = simulation.add(pooled(1, 70, kind)).front();
        std::vector<OutputKind> outputs;
        while (simulation.scheduler.has_work()) {
            REQUIRE(simulation.step());
            outputs.push_back(simulation.last_plan.entries[0].output);
        }
        CHECK(outputs ==
              std::vector<OutputKind>{OutputKind::none, OutputKind::none, OutputKind::pooled});
        CHECK(simulation.finished.at(id).finish_reason == FinishReason::stop);
        CHECK(simulation.finished.at(id).num_generated() == 0);
        CHECK(simulation.all_well());
    }
}

TEST_CASE("pooling: a prompt may be as long as the context, and no longer") {
    const SchedulerConfig config = small_config();
    Simulation simulation(config, small_cache());
    CHECK(simulation.add(pooled(1, config.max_model_len, PoolingKind::mean)).size() == 1);
    const auto refused =
        simulation.scheduler.add(pooled(2, config.max_model_len + 1, PoolingKind::mean));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.fault().message.find("does not fit a context of 128") != std::string::npos);
    simulation.run();
    CHECK(simulation.all_well());
    // All of its tokens are computed, so each needs a place.
    Simulation small(config, small_cache(4));
    CHECK(small.add(pooled(1, 16, PoolingKind::last)).size() == 1);
    CHECK(small.add(pooled(2, 17, PoolingKind::last)).empty());
    small.run();
    CHECK(small.all_well());
}

TEST_CASE("pooling: what is cached is skipped only where early positions are not read") {
    for (const PoolingKind kind : kKinds) {
        Simulation simulation(small_config(), small_cache());
        simulation.add(make_request(1, counting_tokens(1000, 40), 1));
        simulation.run();
        const SequenceId id = simulation.add(pooled(2, 40, kind)).front();
        simulation.run();
        const int32_t expected = kind == PoolingKind::last ? 36 : 0;
        CHECK(simulation.finished.at(id).num_cached_tokens == expected);
        // What it computed serves others.
        const SequenceId third =
            simulation.add(make_request(3, counting_tokens(1000, 40), 1)).front();
        simulation.run();
        CHECK(simulation.finished.at(third).num_cached_tokens == 36);
        CHECK(simulation.all_well());
    }
}

// The first in line takes the blocks of the second when that has computed a part of its prompt.
TEST_CASE("pooling: a preempted sequence is swapped only if no gathered state is lost") {
    for (const PoolingKind kind : kKinds) {
        SchedulerConfig config = small_config();
        config.max_num_seqs = config.max_num_batched_tokens = 2;
        config.preemption_mode = PreemptionMode::swap;
        CacheConfig cache = small_cache(16);
        cache.groups[0].num_host_blocks = 64;
        Simulation simulation(config, cache, kEndless);
        simulation.add(endless(1, 4, 50));
        simulation.step();
        simulation.step();
        const SequenceId id = simulation.add(pooled(2, 40, kind)).front();
        while (simulation.scheduler.stats().preemptions == 0) REQUIRE(simulation.step());
        CHECK(simulation.scheduler.find(id)->num_preemptions == 1);
        const bool swapped = kind == PoolingKind::last;
        CHECK(simulation.scheduler.stats().swaps_out == (swapped ? 1 : 0));
        simulation.run();
        CHECK(simulation.finished.at(id).finish_reason == FinishReason::stop);
        CHECK(simulation.all_well());
    }
}

TEST_CASE("pooling: a lost worker has everything computed again") {
    for (const PoolingKind kind : kKinds) {
        SchedulerConfig config = small_config();
        config.max_num_seqs = config.max_num_batched_tokens = 8;
        Simulation simulation(config, small_cache());
        const SequenceId id = simulation.add(pooled(1, 40, kind)).front();
        for (int i = 0; i < 3; ++i) simulation.step();
        CHECK(simulation.scheduler.find(id)->num_computed == 24);
        simulation.scheduler.reset_worker();
        simulation.worker.restart();
        simulation.run();
        CHECK(simulation.worker.computed_positions == 24 + 40);
        CHECK(simulation.finished.contains(id));
        CHECK(simulation.all_well());
    }
}

TEST_CASE("prompts that are not cut find room however small the step-time target makes a step") {
    SchedulerConfig config = small_config();
    config.enable_chunked_prefill = false;
    config.max_num_batched_tokens = config.max_model_len;
    config.step_time_target_ms = 1.0;
    Simulation simulation(config, small_cache());
    for (int step = 0; step < 200; ++step) {
        simulation.scheduler.observe({.step_ms = 100.0, .num_tokens = 128});
    }
    simulation.add(pooled(1, 128, PoolingKind::mean));
    simulation.run(10);
    CHECK(simulation.num_finished == 1);
    CHECK(simulation.all_well());
}

}  // namespace
}  // namespace nvllm
