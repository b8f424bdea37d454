// The sizes and types that a worker is made with: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/types.h"

namespace nvllm {

// The adapters of a step.
struct AdapterLimits {
    int32_t max_loras = 0;  // in one step, and on the device; 0: there are none
    int64_t max_rank = 16;  // of each

    bool operator==(const AdapterLimits&) const = default;
};

struct WorkerConfig {
    int32_t block_size = 16;               // tokens
    std::vector<int32_t> num_blocks;       // per cache group
    std::vector<int32_t> num_host_blocks;  // the same for swapped-out sequences; empty: none
    int32_t max_num_batched_tokens = 512;
    int32_t max_num_seqs = 128;
    DType kv_dtype = DType::f32;
    DType activations = DType::f32;  // activation_type()
    bool batch_invariant = false;    // on a device; the CPU always is
    int32_t max_graph_rows = 0;      // steps of up to so many sequences run as graphs; 0: none do
    // Of a model with states: sequences with drafts in a step, at most, and drafts of each.
    int32_t num_draft_states = 0;
    int32_t most_drafts = 0;
    bool reports_expert_load = false;  // StepResult::expert_load
    AdapterLimits adapters = {};
    std::string disk_folder = {};  // of DiskStore, with the segments; empty: none
};

}  // namespace nvllm
