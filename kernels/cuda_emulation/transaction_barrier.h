// Barriers in shared memory that count arrivals and bytes (mbarrier of sm_90).
#pragma once

#include <cstdint>

#include "kernels/cuda_emulation/site.h"

namespace nvllm::gpu {

// One in shared memory: GPU_SHARED(gpu::TransactionBarrier, full, [kStages]). It goes through
// phases 0, 1, 2, ...; one is complete when as many threads as init() said have arrived and all
// expected bytes have come.
struct alignas(8) TransactionBarrier {
    uint64_t state;
};

// By one thread, before fence_barriers() and a __syncthreads().
void init_barrier(TransactionBarrier* barrier, uint32_t arrivals,
                  emulation::Site where = emulation::Site::here());
// Makes init_barrier() known to the copies.
void fence_barriers();
void arrive(TransactionBarrier* barrier, emulation::Site where = emulation::Site::here());
// Arrives and expects so many bytes more in this phase.
void arrive_expecting(TransactionBarrier* barrier, uint32_t bytes,
                      emulation::Site where = emulation::Site::here());
// Waits while the phase under way has this parity: wait_barrier(b, 0) returns when phase 0 is
// complete.
void wait_barrier(TransactionBarrier* barrier, uint32_t parity,
                  emulation::Site where = emulation::Site::here());

namespace emulation {

// Bytes of a copy that `thread` started at its time `clock` have come.
void complete_bytes(const void* barrier, uint32_t bytes, int thread, uint32_t clock);
// Faults when there is no initialised barrier.
void check_barrier(const void* barrier, const Site& where);
// Forgets all barriers: a new block begins.
void reset_transaction_barriers();

}  // namespace emulation

}  // namespace nvllm::gpu
