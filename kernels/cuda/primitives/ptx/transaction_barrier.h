// Barriers in shared memory that count arrivals and bytes (mbarrier). For sm_90 and later; on older
// devices a kernel that uses them traps.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives/ptx/async_copy.h"
#include "kernels/cuda/primitives/ptx/words.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define NVLLM_SM90(...) __VA_ARGS__
#else
#define NVLLM_SM90(...) __trap()
#endif

namespace nvllm::gpu {

// One in shared memory; emulation/transaction_barrier.h says how its phases go.
struct alignas(8) TransactionBarrier {
    uint64_t state;
};

// By one thread, before fence_barriers() and a __syncthreads().
__device__ __forceinline__ void init_barrier(TransactionBarrier* barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals)
                 : "memory");
}

// Makes init_barrier() known to the copies.
__device__ __forceinline__ void fence_barriers() {
    NVLLM_SM90(
        asm volatile("fence.mbarrier_init.release.cluster;\n\t"
                     "fence.proxy.async.shared::cta;" ::
                         : "memory"));
}

__device__ __forceinline__ void arrive(TransactionBarrier* barrier) {
    NVLLM_SM90(
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                     : "memory"));
}

// Arrives and expects so many bytes more in this phase.
__device__ __forceinline__ void arrive_expecting(TransactionBarrier* barrier, uint32_t bytes) {
    NVLLM_SM90(asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory"));
}

// Waits while the phase under way has this parity.
__device__ __forceinline__ void wait_barrier(TransactionBarrier* barrier, uint32_t parity) {
    uint32_t complete = 0;
    while (complete == 0) {
        NVLLM_SM90(
            asm volatile("{\n\t"
                         ".reg .pred complete;\n\t"
                         "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n\t"
                         "selp.u32 %0, 1, 0, complete;\n\t"
                         "}"
                         : "=r"(complete)
                         : "r"(shared_address(barrier)), "r"(parity)
                         : "memory"));
    }
}

}  // namespace nvllm::gpu
