// How long a step of several ranks takes, by what each reads, computes and sends: a roofline, with
// the rates of a machine. It predicts; what was measured stands beside it in reports.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/parallel/machine_spec.h"
#include "lib/parallel/parallel_sizes.h"
#include "lib/parallel/pipeline_stages.h"

namespace nvllm {

// What one rank of a tensor group has of a block, and does in it.
struct BlockCost {
    uint64_t weight_bytes = 0;
    uint64_t expert_bytes = 0;  // of those, of experts, of which a step reads those it needs
    int32_t sums = 0;           // all-reduces of the hidden states
    int64_t kv_bytes_per_token = 0;
};

// A model as ranks of one tensor group have it.
struct ModelCost {
    std::vector<BlockCost> blocks;
    uint64_t embedding_bytes = 0;
    uint64_t head_bytes = 0;  // read by every step
    bool is_vocabulary_cut = false;
    int64_t hidden_size = 0;
    int64_t vocab_size = 0;
    double bytes_per_weight = 2.0;
    int32_t kv_type_bytes = 2;
    int64_t num_experts = 0;  // of a block; 0: none
    int64_t experts_per_token = 0;
    // Ranks that have the experts of a block between them, those of so many replicas; 1: a tensor
    // group cuts each.
    int32_t expert_ranks = 1;
    int32_t expert_replicas = 1;
};

// Sequences that decode together.
struct StepLoad {
    int64_t sequences = 1;
    int64_t context = 1024;  // tokens that each has
};

// What one stage has and does.
struct StageCost {
    double read_s = 0.0;
    double compute_s = 0.0;
    double link_s = 0.0;
    double bytes_sent = 0.0;    // by all its ranks
    int64_t messages = 0;       // operations between ranks
    uint64_t weight_bytes = 0;  // of a rank
    uint64_t kv_bytes = 0;      // alike

    // Computing overlaps with reading.
    double total_s() const { return std::max(read_s, compute_s) + link_s; }
};

struct StepCost {
    double read_s = 0.0;        // of the slowest stage
    double compute_s = 0.0;     // alike; overlaps with reading
    double link_s = 0.0;        // alike: sums, gathers and what is handed on
    double stage_s = 0.0;       // of the slowest stage: a step ends that often
    double latency_s = 0.0;     // of a step through all stages
    uint64_t rank_bytes = 0;    // that all ranks send in a step, as steps count them
    int64_t messages = 0;       // operations between ranks in a step
    uint64_t weight_bytes = 0;  // of the rank with the most
    uint64_t kv_bytes = 0;      // alike, of the load
    std::vector<StageCost> stages = {};

    double tokens_per_s(const StepLoad& load) const {
        return static_cast<double>(load.sequences) / stage_s;
    }
};

// Of a step in which each stage computes the load's sequences; with P stages, P such groups of
// sequences take turns. `stages` empty: one. Bytes of sums: 2 (N - 1) of the hidden states; of
// logits (N - 1) rows; between stages, the hidden states of each rank. Of experts on several ranks
// a row goes to each other rank that has one of its own, which are chosen evenly; each one's result
// comes back, and a tensor group gathers its rows.
StepCost step_cost(const ModelCost& model, const ParallelSizes& sizes,
                   std::span<const PipelineStage> stages, const MachineSpec& machine,
                   const StepLoad& load);

}  // namespace nvllm
