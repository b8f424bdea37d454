// The memory plan: how many blocks fit beside the weights, computed from headers before a weight is
// read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/model.h"

namespace nvllm {

struct MemoryRequest {
    uint64_t weight_bytes = 0;
    uint64_t scratch_bytes = 0;
    uint64_t available_bytes = 0;            // weights not yet counted off
    std::optional<uint64_t> kv_cache_bytes;  // --kv-cache-memory-bytes
    std::optional<int32_t> max_model_len;  // --max-model-len; empty: as much of the model's as fits
    int64_t model_max_positions = 0;
    int32_t max_num_seqs = 0;
    int32_t max_num_batched_tokens = 0;
    int32_t block_size = 0;
    DType kv_dtype = DType::f32;
    std::vector<KvGroup> groups;
};

struct MemoryPlan {
    uint64_t weight_bytes = 0;
    uint64_t scratch_bytes = 0;
    uint64_t kv_bytes = 0;            // of all blocks
    int64_t kv_bytes_per_token = 0;   // all groups
    std::vector<int32_t> num_blocks;  // per cache group
    int32_t block_size = 0;
    int32_t max_model_len = 0;
    int64_t kv_tokens = 0;             // tokens the smallest group holds
    double max_concurrency = 0.0;      // sequences of max_model_len that fit at once
    std::vector<std::string> notices;  // what was changed to make it fit

    // "weights 2.3 GiB, kv cache 4.0 GiB ..." in one line.
    std::string summary() const;
};

// Throws does_not_fit, with the value and the flag that would work, when not even one sequence
// fits.
MemoryPlan make_memory_plan(const MemoryRequest& request);

// "4.00 GiB", "512.0 MiB", "96 B".
std::string describe_bytes(uint64_t bytes);

}  // namespace nvllm
