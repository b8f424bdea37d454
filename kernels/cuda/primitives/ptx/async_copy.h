// Asynchronous copies of 16 bytes from global to shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives/ptx/words.h"

namespace nvllm::gpu {

__device__ __forceinline__ uint32_t shared_address(const void* address) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(address));
}

// Starts a copy of `bytes_read` bytes, 0 to 16; the rest of the 16 is filled with zeros. Both
// addresses are multiples of 16.
__device__ __forceinline__ void cp_async16(void* shared, const void* global, int bytes_read = 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(bytes_read)
                 : "memory");
}
// Closes the group of the copies that this thread has started since the last one.
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most `groups_left` of this thread's closed groups are under way. What other
// threads have copied is seen after a barrier.
template <int groups_left>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(groups_left) : "memory");
}

}  // namespace nvllm::gpu
