// What the ranks of a machine can do: how fast each reads and computes while all do, and how long
// they take to sum. Every rank of a tensor group measures at the same time.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/host/cpu_placement.h"
#include "kernels/host/thread_pool.h"
#include "kernels/types.h"
#include "lib/parallel/rank_setup.h"

namespace nvllm {

// What one rank is to measure. Ranks compute on the CPU.
struct RankProbe {
    RankSetup ranks;
    CpuPlacement placement;                // of all threads of the machine
    PlacementOptions placement_options;    // of a rank that was started on another one
    DType dtype = DType::bf16;             // of weights
    uint64_t weight_bytes = 256ull << 20;  // of each rank: more than caches hold

    RankProbe of_rank(int32_t rank) const;
};

// How long ranks took to sum so many bytes, which each of them had.
struct SumSample {
    uint64_t bytes = 0;
    double seconds = 0.0;

    bool operator==(const SumSample&) const = default;
};

struct RankRates {
    double read_bytes_per_s = 0.0;  // of weights, by products of one row
    double operations_per_s = 0.0;  // of products of many rows; a multiply-add is two
    uint64_t memory_bytes = 0;      // that are free, of its machine by the ranks there
    std::vector<SumSample> sums;    // ascending
};

// Joins the other ranks and measures with them, on the calling thread and those of the pool.
// `num_local`: ranks on this machine. Throws what RankGroups throws.
RankRates measure_as_rank(const RankProbe& probe, int num_local, ThreadPool& threads);

}  // namespace nvllm
