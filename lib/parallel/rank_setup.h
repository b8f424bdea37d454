// What makes a process or a thread one rank of several: plain data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/parallel/parallel_sizes.h"
#include "lib/parallel/replica_place.h"

namespace nvllm {

// As GroupId has them.
using GroupIdBytes = std::array<uint8_t, 128>;

struct RankSetup {
    ParallelSizes sizes;
    int32_t rank = 0;
    // Whose operations carry the data: a module's file; empty: those between threads.
    std::string collectives;
    // Replicas whose ranks share out the experts, and which of them this is; alone: a replica has
    // all experts itself.
    ReplicaPlace sharing;
    // Of each replica that shares: of the tensor group of each stage, then of the pipeline of each
    // tensor rank. Behind those of all, of the experts of each stage. Empty where there is one
    // rank.
    std::vector<GroupIdBytes> group_ids = {};

    bool is_alone() const { return num_started() == 1; }
    bool shares_experts() const { return !sharing.is_alone(); }
    // Ranks that are started together, and the number of this one, or of another one of its
    // replica, among them.
    int32_t num_started() const { return sizes.num_ranks() * sharing.count; }
    int32_t started_as(int32_t other) const { return sharing.index * sizes.num_ranks() + other; }
    // Which of the expert group's it is.
    int32_t expert_rank() const { return sharing.index * sizes.tensor + tensor_rank(); }
    bool chooses() const { return rank == sizes.output_rank(); }
    int32_t stage() const { return sizes.stage_of(rank); }
    int32_t tensor_rank() const { return sizes.tensor_rank_of(rank); }
};

}  // namespace nvllm
