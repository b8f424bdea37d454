// What the bookkeeping of a step costs: operations are counted and checked, times are printed only.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

struct StepCosts {
    double median_us = 0.0;
    int64_t num_steps = 0;
};

// Plans and commits of `num_sequences` that decode, without a worker.
StepCosts decode_steps(int32_t num_sequences, bool prefix_caching) {
    SchedulerConfig config;
    config.max_num_seqs = num_sequences;
    config.max_num_batched_tokens = 8192;
    config.max_model_len = 4096;
    CacheManager cache({.block_size = 16,
                        .groups = {{num_sequences * 40, 0}},
                        .enable_prefix_caching = prefix_caching,
                        .hash_key = HashKey{1, 2}});
    Scheduler scheduler(config, cache);
    for (int32_t i = 0; i < num_sequences; ++i) {
        // Of all lengths, as in life: their blocks do not fill in the same step.
        Request request = endless(static_cast<RequestId>(i + 1), 40 + i % 37, 500);
        REQUIRE(scheduler.add(request).ok());
    }
    std::vector<double> microseconds;
    for (int step = 0; step < 300; ++step) {
        const auto begin = std::chrono::steady_clock::now();
        const std::optional<BatchPlan> plan = scheduler.next(step * 1e-3);
        const auto planned = std::chrono::steady_clock::now();
        REQUIRE(plan.has_value());
        StepResult result{.plan_number = plan->number, .sequences = {}};
        result.sequences.resize(plan->entries.size());  // as the worker makes it
        for (size_t i = 0; i < plan->entries.size(); ++i) {
            result.sequences[i].sequence = plan->entries[i].sequence;
            if (plan->entries[i].output == OutputKind::sample) {
                result.sequences[i].token_ids = {step % 1000};
            }
        }
        const auto computed = std::chrono::steady_clock::now();
        scheduler.commit(result, scheduler.check_stop(result), step * 1e-3);
        const std::chrono::duration<double, std::micro> passed =
            (planned - begin) + (std::chrono::steady_clock::now() - computed);
        if (plan->num_tokens() == num_sequences) microseconds.push_back(passed.count());
    }
    std::ranges::sort(microseconds);
    return {microseconds[microseconds.size() / 2], static_cast<int64_t>(microseconds.size())};
}

TEST_CASE("bookkeeping: plan and commit of decoding sequences") {
    for (const int32_t num_sequences : {256, 1024}) {
        const StepCosts cached = decode_steps(num_sequences, true);
        const StepCosts uncached = decode_steps(num_sequences, false);
        CHECK(cached.num_steps > 200);
        MESSAGE(num_sequences, " sequences: median of ", cached.num_steps, " steps ",
                cached.median_us, " us; without prefix caching ", uncached.median_us, " us");
    }
}

TEST_CASE("bookkeeping: eight continuations hold the prompt once, and a tail each") {
    SchedulerConfig config = small_config();
    config.max_num_batched_tokens = 512;
    config.max_model_len = 2200;
    CacheConfig cache = small_cache(1000);
    cache.block_size = 16;
    Simulation simulation(config, cache, kEndless);
    Request request = endless(1, 2000, 100);
    request.sampling.n = 8;
    simulation.add(request);
    int32_t most_used = 0;
    while (simulation.scheduler.has_work()) {
        simulation.step();
        most_used = std::max(most_used, simulation.cache.stats().blocks.used);
    }
    const int32_t prompt_blocks = 2000 / 16;
    const int32_t tail_blocks = (100 + 15) / 16;
    CHECK(most_used <= (prompt_blocks + 8 * tail_blocks) * 105 / 100);
    CHECK(simulation.num_finished == 8);
    CHECK(simulation.all_well());
}

}  // namespace
}  // namespace nvllm
