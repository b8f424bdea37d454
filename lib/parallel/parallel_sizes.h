// How many ranks compute one replica of a model, and which of them does what.
//
// Ranks are numbered stage by stage: all of a stage's tensor group are neighbours, as other engines
// of the field number them, so that a tensor group lies within a host where it can.
#pragma once

#include <cstdint>

namespace nvllm {

struct ParallelSizes {
    int32_t tensor = 1;    // ranks that share out each layer
    int32_t pipeline = 1;  // stages, each with its own layers
    // Of layers of experts, a rank of the tensor group has some experts instead of a part of each.
    bool expert_parallel = false;

    int32_t num_ranks() const { return tensor * pipeline; }
    int32_t stage_of(int32_t rank) const { return rank / tensor; }
    int32_t tensor_rank_of(int32_t rank) const { return rank % tensor; }
    int32_t rank_at(int32_t stage, int32_t tensor_rank) const {
        return stage * tensor + tensor_rank;
    }
    // Of the last stage, the one that chooses tokens.
    int32_t output_rank() const { return rank_at(pipeline - 1, 0); }

    bool operator==(const ParallelSizes&) const = default;
};

}  // namespace nvllm
