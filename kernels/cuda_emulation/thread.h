// What a thread of a kernel is on the host: its indices, its place in its block, its state.
#pragma once

#include <vector_types.h>

#include <cstdint>

#include "kernels/cuda_emulation/site.h"

namespace nvllm::gpu::emulation {

class Fiber;

constexpr int kWarpSize = 32;
constexpr int kMaxThreads = 1024;
constexpr uint32_t kFullMask = 0xffffffffu;

// What the builtin variables name.
struct Indices {
    uint3 thread{};
    uint3 block{};
    dim3 block_size;
    dim3 grid_size;
};

struct Thread {
    Indices indices;
    int number = 0;  // within its block
    int lane = 0;
    int warp = 0;
    Fiber* fiber = nullptr;           // while it has begun and not ended
    const char* waits_for = nullptr;  // while it waits
    Site waits_at;
    uint32_t waits_mask = 0;  // of lanes; 0: not for lanes
};

// The thread whose body runs now; null outside kernels. Set by the scheduler only. Not
// `thread_local`: the wrapper function that C++ puts around those costs time, and sanitizers doubt
// its result.
extern __thread Thread* current;

}  // namespace nvllm::gpu::emulation

// Lvalues as in CUDA, and as there not to be written to.
#define threadIdx (static_cast<const uint3&>(::nvllm::gpu::emulation::current->indices.thread))
#define blockIdx (static_cast<const uint3&>(::nvllm::gpu::emulation::current->indices.block))
#define blockDim (static_cast<const dim3&>(::nvllm::gpu::emulation::current->indices.block_size))
#define gridDim (static_cast<const dim3&>(::nvllm::gpu::emulation::current->indices.grid_size))
