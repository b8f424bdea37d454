// A scheduler with its cache and a fake worker, stepped together; what every test of the scheduler
// drives.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "lib/schedule/scheduler.h"
#include "tests/lib/schedule/fake_worker.h"

namespace nvllm {

inline Request make_request(RequestId id, std::vector<int32_t> prompt, int32_t max_tokens) {
    Request request;
    request.id = id;
    request.prompt_token_ids = std::move(prompt);
    request.sampling.max_tokens = max_tokens;
    request.sampling.seed = id;
    request.eos_token_ids = {kEndToken};
    return request;
}

inline std::vector<int32_t> counting_tokens(int32_t first, int32_t count) {
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
    return tokens;
}

inline SchedulerConfig small_config() {
    SchedulerConfig config;
    config.max_num_seqs = 8;
    config.max_num_batched_tokens = 32;
    config.max_model_len = 128;
    return config;
}

inline CacheConfig small_cache(int32_t num_blocks = 64) {
    return {.block_size = 4, .groups = {{num_blocks, 0}}, .hash_key = HashKey{1, 2}};
}

// No token of the vocabulary ends a sequence.
inline constexpr TokenRule kEndless{.vocab_size = 1 << 20};

inline Request endless(RequestId id, int32_t num_prompt, int32_t max_tokens) {
    Request request =
        make_request(id, counting_tokens(static_cast<int32_t>(id) * 1000, num_prompt), max_tokens);
    request.sampling.ignore_eos = true;
    return request;
}

struct Simulation {
    Simulation(const SchedulerConfig& scheduler_config, const CacheConfig& cache_config,
               TokenRule rule = {}, DraftProposer* proposer = nullptr)
        : config(scheduler_config),
          rule(rule),
          cache(cache_config),
          scheduler(scheduler_config, cache, proposer),
          worker(cache_config, rule) {}

    std::vector<SequenceId> add(const Request& request) {
        Result<std::vector<SequenceId>> ids = scheduler.add(request);
        if (!ids.ok()) return {};
        for (const SequenceId id : *ids) requests.emplace(id, request);
        return *ids;
    }

    // Makes and executes a plan; false when there is none.
    bool plan() {
        std::optional<BatchPlan> plan = scheduler.next(now_s += step_s, limits);
        if (!plan) return false;
        wrong += plan->num_tokens() > config.max_num_batched_tokens;
        wrong += static_cast<int32_t>(plan->entries.size()) > config.max_num_seqs;
        wrong += plan->entries.empty() && plan->moves.empty() && plan->num_blocks.empty() &&
                 plan->adapters.empty() && !plan->awaits_adapters && !plan->awaits_disk;
        if (config.enable_chunked_prefill) {
            for (const PlanEntry& entry : plan->entries)
                wrong += entry.count > config.largest_step();
        }
        results.push_back(worker.execute(*plan));
        last_plan = *std::move(plan);
        return true;
    }

    // Of one sequence; those that finished at once.
    std::vector<SequenceId> cancel_sequence(SequenceId id) {
        const Sequence* sequence = scheduler.find(id);
        if (sequence == nullptr) return {};
        return scheduler.cancel(sequence->request_id, sequence->index);
    }

    // Commits the oldest result; those that finished.
    std::vector<SequenceId> commit() {
        if (results.empty()) return {};
        const StepResult result = std::move(results.front());
        results.pop_front();
        const std::vector<StopDecision> decisions = scheduler.check_stop(result);
        worker.committed(result.plan_number);
        std::vector<SequenceId> finished = scheduler.commit(result, decisions, now_s += step_s);
        for (const SequenceId id : finished) check_finished(id);
        return finished;
    }

    bool step() {
        const bool planned = plan();
        commit();
        return planned;
    }

    // Steps until there is no work. If active sequences do not finish in `limit` steps, that is an
    // error.
    void run(int limit = 100000) {
        while (scheduler.has_work() && limit-- > 0) step();
        wrong += scheduler.has_work();
    }

    void check_finished(SequenceId id) {
        ++num_finished;
        const Sequence* sequence = scheduler.find(id);
        if (sequence == nullptr || sequence->state != SequenceState::finished) {
            ++wrong;
            return;
        }
        finished[id] = *sequence;
        const bool whole = sequence->finish_reason == FinishReason::stop ||
                           sequence->finish_reason == FinishReason::length;
        if (!whole) return;
        wrong += sequence->token_ids !=
                 expected_tokens(requests.at(id), sequence->index, rule, config.max_model_len);
    }

    // Nothing runs: no block may be in use, and no promise may have been broken.
    bool all_well() {
        scheduler.check_integrity();
        const BlockCounts blocks = cache.stats().blocks;
        return wrong == 0 && worker.wrong == 0 && worker.adapters.wrong == 0 && blocks.used == 0 &&
               scheduler.stats().stalled_steps == 0;
    }

    SchedulerConfig config;
    TokenRule rule;
    CacheManager cache;
    Scheduler scheduler;
    FakeWorker worker;
    std::deque<StepResult> results;  // executed, not committed
    BatchPlan last_plan;
    PlanLimits limits;  // of the plans from here on
    std::map<SequenceId, Request> requests;
    std::map<SequenceId, Sequence> finished;
    double now_s = 0.0;
    double step_s = 1.0;  // between two calls
    int64_t wrong = 0;
    int64_t num_finished = 0;
};

// Entries of the last plan as (sequence, first, count).
inline std::vector<std::vector<int64_t>> entries(const Simulation& simulation) {
    std::vector<std::vector<int64_t>> rows;
    for (const PlanEntry& entry : simulation.last_plan.entries) {
        rows.push_back({static_cast<int64_t>(entry.sequence), entry.first, entry.count});
    }
    return rows;
}
using Rows = std::vector<std::vector<int64_t>>;

}  // namespace nvllm
