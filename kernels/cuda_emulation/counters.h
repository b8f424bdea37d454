// Counts what memory accesses cost a warp: bank conflicts in shared memory, 32-byte sectors of
// global memory.
//
// Accesses of a warp's lanes belong together when they come from the same place in the code and are
// each lane's n-th from there. Only kernels with access hooks are seen whole; the matrix loads and
// stores of gpu.h are seen in every program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/accesses.h"

namespace nvllm::gpu::emulation {

// The accesses of all warps from one place in the code.
struct PlaceCount {
    Origin origin = nullptr;
    bool shared = false;
    Access access = Access::read;
    uint64_t requests = 0;  // by whole warps
    // Of shared memory: passes over the 32 banks, and how many there would be if no two lanes met
    // in a bank.
    uint64_t passes = 0;
    uint64_t min_passes = 0;
    // Of global memory: sectors touched, and how many would hold the bytes.
    uint64_t sectors = 0;
    uint64_t min_sectors = 0;

    // 1 where there are no conflicts.
    double conflict_factor() const;
    // 1 where every sector is used whole.
    double sector_factor() const;
    // "norm.cu:41: 32 requests, 4.00 passes for one"
    std::string describe() const;
};

// Counts the launches made while it lives. One at a time.
class AccessCounts {
  public:
    AccessCounts();
    ~AccessCounts();
    AccessCounts(const AccessCounts&) = delete;
    AccessCounts& operator=(const AccessCounts&) = delete;

    // All places so far, the costliest first.
    std::vector<PlaceCount> places() const;
    // The largest over all places; 1 when there are none.
    double worst_conflict_factor() const;
    double worst_sector_factor() const;
    // One line a place, for messages.
    std::string describe() const;
};

bool counting();
void count_access(const Thread& thread, const void* address, size_t bytes, Access access,
                  Origin origin);
// The accesses that are still being gathered are complete: their block has ended.
void finish_counting_block();

}  // namespace nvllm::gpu::emulation
