// How many sequences and tokens a step may have, and in what order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lib/request/sampling_params.h"
#include "lib/schedule/adapter_stats.h"
#include "lib/schedule/preemption_mode.h"
#include "lib/schedule/speculation/speculation_config.h"

namespace nvllm {

struct SchedulerConfig {
    int32_t max_num_seqs = 128;             // sequences that run at once
    int32_t max_num_batched_tokens = 2048;  // tokens computed in one step
    int32_t max_model_len = 0;              // prompt and answer together; must be set
    int32_t pipeline_depth = 1;             // plans that may be uncommitted at once
    // Whether the worker finds the last token of a sequence with these parameters by itself, so
    // that it may be planned before the token is known; empty: never. Where it is set, nothing is
    // planned beside a plan that chooses tokens of other sequences.
    std::function<bool(const SamplingParams&)> may_plan_ahead;
    bool enable_chunked_prefill = true;  // a prompt may be spread over several steps
    int32_t chunk_size = 0;  // largest part of one prompt in one step; 0: only the step's limit
    // Tokens of prompts in a step in which answers go on: up to half more while few do, as many as
    // answers if those are more. 0: only the step's limit.
    int32_t mixed_prefill_tokens = 0;
    int32_t max_num_partial_prefills = 0;  // prompts in a step that it leaves unfinished; 0: any
    double step_time_target_ms = 0.0;      // 0: max_num_batched_tokens in every step
    std::string policy = "fcfs";           // a row of policy.cc
    PreemptionMode preemption_mode = PreemptionMode::automatic;
    // Sequences whose computed positions all lie below it take the model's other rotary frequencies
    // (AddedSequence::rope_choice); 0: there are none.
    int32_t original_context = 0;
    std::vector<uint64_t> block_bytes;  // of a block in each cache group, to weigh a swap
    SpeculationConfig speculation;
    AdapterTierLimits adapters;
    double defrag_threshold = 0.0;  // compact when a group's fragmentation is above; 0: never

    // The most tokens of one sequence in one step.
    int32_t largest_step() const {
        const bool cut = enable_chunked_prefill && chunk_size > 0;
        return cut ? std::min(chunk_size, max_num_batched_tokens) : max_num_batched_tokens;
    }
    // Throws bad_config, naming the flag, its value and what it must be.
    void check() const;
};

}  // namespace nvllm
