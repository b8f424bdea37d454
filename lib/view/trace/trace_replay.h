// Replays a trace through the scheduler and the cache as engines use them, with a formula in place
// of a model. Deterministic: no clock is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/cache/cache_stats.h"
#include "lib/schedule/scheduler_config.h"
#include "lib/view/trace/step_cost_model.h"
#include "lib/view/trace/trace_file.h"

namespace nvllm::view {

struct ReplayConfig {
    std::string scheduling_policy = "fcfs";
    std::string eviction_policy = "lru";
    int32_t num_blocks = 0;
    int32_t block_size = 16;
    int32_t max_num_seqs = 256;
    int32_t max_num_batched_tokens = 8192;
    bool enable_prefix_caching = true;
    StepModel step;
};

struct Spread {
    double mean = 0.0;
    double p50 = 0.0;
    double p99 = 0.0;
};

struct ReplayResult {
    ReplayConfig config;
    int64_t num_finished = 0;
    int64_t num_refused = 0;    // never fit the cache
    int64_t prompt_tokens = 0;  // of those that came in
    int64_t hit_tokens = 0;     // of those, found when a request first came in
    double saved_prefill_s = 0.0;
    double whole_prefill_s = 0.0;  // of those prompts, without a cache
    Spread ttft_s;
    Spread queue_s;         // from arrival to the first step
    double fairness = 0.0;  // Jain's index over slowdowns: 1 when all are alike
    int64_t preemptions = 0;
    int64_t pauses = 0;
    int64_t steps = 0;
    int64_t evictions = 0;
    double makespan_s = 0.0;

    double hit_rate() const {
        return prompt_tokens > 0 ? double(hit_tokens) / double(prompt_tokens) : 0.0;
    }
};

// Throws bad_config when the configuration contradicts itself.
ReplayResult replay_trace(const Trace& trace, const ReplayConfig& config);

// No cache of so many blocks that lets requests in in the order of arrival can find more tokens
// of their prompts: Belady's MIN, which gives up the block whose next use is farthest and may leave
// a block out. It bounds from above because it has leave that no cache has: blocks need not form
// whole prefixes, prompts are computed at once, and what runs holds nothing. Its seconds are those
// of the blocks it finds; finding fewer but deeper ones could save slightly more.
struct Optimum {
    int64_t hit_tokens = 0;
    double saved_prefill_s = 0.0;
};
Optimum offline_optimum(const Trace& trace, const ReplayConfig& config);

}  // namespace nvllm::view
