// The memory plan: how many blocks fit beside the weights, computed from headers before a weight is
// read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/units.h"
#include "lib/model/model.h"

namespace nvllm {

// What one of several ranks has of a model whose weights and groups a plan counts.
struct RankShare {
    uint64_t weight_bytes = 0;
    std::vector<int32_t> num_layers;  // of each group
};
struct RankMemory {
    uint64_t weight_bytes = 0;
    uint64_t kv_bytes = 0;

    bool operator==(const RankMemory&) const = default;
};

struct MemoryRequest {
    uint64_t weight_bytes = 0;
    uint64_t scratch_bytes = 0;
    uint64_t adapter_bytes = 0;              // of weight_bytes, for adapters
    uint64_t available_bytes = 0;            // weights not yet counted off
    std::string device;                      // whose memory that is, "cuda:0"; empty: the machine's
    uint64_t swap_bytes = 0;                 // host memory for swapped blocks
    uint64_t offload_bytes = 0;              // alike, for cached blocks that were evicted
    std::optional<uint64_t> kv_cache_bytes;  // --kv-cache-memory-bytes
    std::optional<uint64_t> limit_bytes;     // --memory-limit: of everything together
    std::optional<double> utilization;       // --gpu-memory-utilization: share of what is available
    std::optional<int32_t> max_blocks;       // --max-blocks: in each group of blocks
    std::optional<int32_t> max_model_len;  // --max-model-len; empty: as much of the model's as fits
    int64_t model_max_positions = 0;
    int32_t max_num_seqs = 0;
    int32_t max_num_batched_tokens = 0;
    // Prompts are computed in one step each, and their blocks are free when it is done (encoders).
    bool whole_prompts = false;
    int32_t block_size = 0;
    DType kv_dtype = DType::f32;
    std::vector<CacheLayout> groups;
    // Of each group, what layers of a draft method take in its blocks; empty: there are none.
    std::vector<int64_t> draft_bytes_per_token = {};
    // Of each rank; empty: there is one. All sizes above are then those of the ranks that hold one
    // place in every stage together; on devices, of the rank with the most.
    std::vector<RankShare> ranks = {};
    // Ranks that share the machine's memory, and whatever is a limit of it.
    int32_t num_sharing = 1;
    int32_t num_replicas = 1;  // for each of which the plan is
};

struct MemoryPlan {
    uint64_t weight_bytes = 0;
    uint64_t scratch_bytes = 0;
    uint64_t adapter_bytes = 0;      // of weight_bytes, as in the request
    uint64_t swap_bytes = 0;         // of the host blocks, whatever for
    uint64_t available_bytes = 0;    // as in the request
    std::string device;              // alike
    uint64_t kv_budget_bytes = 0;    // what the cache may take
    uint64_t kv_bytes = 0;           // of all blocks
    int64_t kv_bytes_per_token = 0;  // all groups
    DType kv_dtype = DType::f32;
    std::vector<CacheLayout> groups;
    std::vector<int64_t> draft_bytes_per_token;  // as in the request
    std::vector<int32_t> num_blocks;             // per cache group; of states their slots
    std::vector<int32_t> num_host_blocks;        // the same for swapped-out sequences
    std::optional<int32_t> max_blocks;           // as in the request
    int32_t block_size = 0;
    int32_t max_model_len = 0;
    int64_t kv_tokens = 0;         // tokens the smallest group holds
    double max_concurrency = 0.0;  // sequences of max_model_len that fit at once
    double smallest_share = 0.0;   // of num_blocks, in which one of them still fits
    int32_t max_num_seqs = 0;
    int32_t max_num_batched_tokens = 0;
    bool whole_prompts = false;          // as in the request: what runs at once is what a step has
    int32_t longest_context = 0;         // of one sequence alone in the budget
    int32_t longest_shared_context = 0;  // of max_num_seqs sequences at once
    uint64_t kv_bytes_for_all = 0;       // for max_num_seqs sequences of max_model_len
    std::vector<RankMemory> ranks;       // empty: there is one
    int32_t num_replicas = 1;            // as in the request
    std::vector<std::string> notices;    // what was changed to make it fit
    // Why not even one sequence fits, and which value of which flag would; the sizes above are
    // then those of one sequence. Empty: it fits.
    std::string shortage;

    // Of a cache group, with the layers of a draft method.
    int64_t bytes_per_token(size_t group) const;
    // Bytes of one block in each cache group.
    std::vector<uint64_t> block_bytes() const;
    // Of so many blocks of all groups, in the groups' proportions.
    uint64_t bytes_of_blocks(int64_t blocks) const;
    // "weights 2.3 GiB, kv cache 4.0 GiB ..." in one line.
    std::string summary() const;
};

// Whether it fits or not. Throws usage when more positions are asked for than the model has.
MemoryPlan plan_memory(const MemoryRequest& request);

// A plan that fits: throws does_not_fit with the plan's shortage otherwise.
MemoryPlan make_memory_plan(const MemoryRequest& request);

}  // namespace nvllm
