// The barrier of a block's threads.
#pragma once

#include "kernels/cuda_emulation/site.h"

namespace nvllm::gpu::emulation {

// The running thread waits until every thread of its block is here. Faults: threads that meet at
// different places, and a thread that has ended and so will never come.
void block_barrier(Site where);

// Forgets who has arrived: a new block begins.
void reset_block_barrier();

}  // namespace nvllm::gpu::emulation

inline void __syncthreads(nvllm::gpu::emulation::Site where = nvllm::gpu::emulation::Site::here()) {
    nvllm::gpu::emulation::block_barrier(where);
}
