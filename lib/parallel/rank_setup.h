// What makes a process or a thread one rank of several: plain data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/parallel/parallel_sizes.h"

namespace nvllm {

// As GroupId has them.
using GroupIdBytes = std::array<uint8_t, 128>;

struct RankSetup {
    ParallelSizes sizes;
    int32_t rank = 0;
    // Whose operations carry the data: a module's file; empty: those between threads.
    std::string collectives;
    // Of the tensor group of each stage, then of the pipeline of each tensor rank. Empty where
    // there is one rank.
    std::vector<GroupIdBytes> group_ids = {};

    bool is_alone() const { return sizes.num_ranks() == 1; }
    bool chooses() const { return rank == sizes.output_rank(); }
    int32_t stage() const { return sizes.stage_of(rank); }
    int32_t tensor_rank() const { return sizes.tensor_rank_of(rank); }
};

}  // namespace nvllm
