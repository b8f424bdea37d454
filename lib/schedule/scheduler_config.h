// How many sequences and tokens a step may have, and in what order.
#pragma once

#include <cstdint>
#include <string>

namespace nvllm {

struct SchedulerConfig {
    int32_t max_num_seqs = 128;             // sequences that run at once
    int32_t max_num_batched_tokens = 2048;  // tokens computed in one step
    int32_t max_model_len = 0;              // prompt and answer together; must be set
    int32_t pipeline_depth = 1;             // plans that may be uncommitted at once
    bool enable_chunked_prefill = true;     // a prompt may be spread over several steps
    int32_t chunk_size = 0;  // largest part of one prompt in one step; 0: only the step's limit
    std::string policy = "fcfs";  // a row of policy.cc

    // The most tokens of one sequence in one step.
    int32_t largest_step() const {
        const bool cut = enable_chunked_prefill && chunk_size > 0;
        return cut && chunk_size < max_num_batched_tokens ? chunk_size : max_num_batched_tokens;
    }
    // Throws bad_config, naming the flag, its value and what it must be.
    void check() const;
};

}  // namespace nvllm
