// Finds accesses to the same bytes by threads of a launch that nothing orders.
//
// Ordered are: a thread's own accesses; those on both sides of a block's barrier; those on both
// sides of a sync_warp() that both lanes took part in (shuffles and votes order nothing). Different
// blocks of a launch are ordered by atomics only: a block that has called thread_fence() hands
// everything it did so far to whom uses the same atomic address later. That is coarser than the
// memory model: which thread fenced is not asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda_emulation/accesses.h"

namespace nvllm::gpu::emulation::races {

// Whether this launch is watched.
bool watching();

void begin_launch();
void begin_block();
// All threads of the block have met.
void note_block_barrier();
// The lanes of a mask of a warp have met in sync_warp().
void note_warp_barrier(int warp, uint32_t mask);
// The running thread has called thread_fence().
void note_fence();

// By thread of the block: up to which of its times one knows what it did.
using Knowledge = std::vector<uint32_t>;

// What the thread did and knows goes into what a barrier knows.
void release(const Thread& thread, Knowledge& barrier);
// What a barrier knows, the thread knows.
void acquire(const Thread& thread, const Knowledge& barrier);
void learn(Knowledge& barrier, int thread, uint32_t time);

void check(const Thread& thread, const void* address, size_t bytes, Access access, Origin origin);

// From start to end any access to the 16 bytes at `shared` is a fault, by whomever.
void start_copy(const Thread& thread, const void* shared, Origin origin);
void end_copy(const Thread& thread, const void* shared, const void* global, size_t bytes_read,
              Origin origin);

// The same for a copy that ends by itself: the time it was started at, which is a time of its own;
// from then on it counts as a write of the thread at that time.
uint32_t start_bulk_copy(const Thread& thread, const void* shared, size_t bytes, Origin origin);
void end_bulk_copy(const void* shared, size_t bytes, int thread, uint32_t time, Origin origin);

}  // namespace nvllm::gpu::emulation::races
