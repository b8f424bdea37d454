// How a model could be divided among devices, and what each way is predicted to cost. Nothing is
// loaded: headers or config.json are enough, for more devices than there are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/engine/engine_config.h"
#include "lib/parallel/parallel_sizes.h"
#include "lib/parallel/pipeline_stages.h"
#include "lib/parallel/step_cost.h"

namespace nvllm {

struct Split {
    ParallelSizes sizes;                // of a replica
    std::vector<PipelineStage> stages;  // empty: one
    int32_t replicas = 1;
    int32_t expert_ranks = 1;  // that have experts of their own, --enable-expert-parallel; 1: none
    StepLoad load;             // of a step of a replica
    StepCost cost;
    uint64_t memory_bytes = 0;  // of the rank with the most: weights and cache
    bool fits = false;          // in a device's memory, of which a tenth is left free
    size_t num_replicated = 0;  // modules that every rank has all of

    // Of all replicas.
    double tokens_per_s() const { return replicas * cost.tokens_per_s(load); }
};

struct TopologyRequest {
    int32_t devices = 8;
    MachineSpec machine;
    StepLoad load{64, 2048};  // of all replicas together
};

// Every way to divide the model of the options among exactly so many devices, by powers of two, and
// with experts spread over ranks where that is possible:
// those that fit first, and of these the one with the most tokens a second. Throws what
// model_metadata() throws.
std::vector<Split> possible_splits(const EngineConfig& config, const TopologyRequest& request);

}  // namespace nvllm
