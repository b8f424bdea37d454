// Loads and stores of 16 bytes and their like, atomic operations, fences.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives/ptx/words.h"

namespace nvllm::gpu {

__device__ __forceinline__ uint4 load16(const void* address) {
    return *static_cast<const uint4*>(address);
}
__device__ __forceinline__ uint2 load8(const void* address) {
    return *static_cast<const uint2*>(address);
}
__device__ __forceinline__ uint32_t load4(const void* address) {
    return *static_cast<const uint32_t*>(address);
}
__device__ __forceinline__ void store16(void* address, uint4 value) {
    *static_cast<uint4*>(address) = value;
}
__device__ __forceinline__ void store8(void* address, uint2 value) {
    *static_cast<uint2*>(address) = value;
}
__device__ __forceinline__ void store4(void* address, uint32_t value) {
    *static_cast<uint32_t*>(address) = value;
}

// Of global memory that nothing writes during the launch and that is read once: kept out of the
// first cache.
__device__ __forceinline__ uint4 load_streaming16(const void* address) {
    uint4 value;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(__cvta_generic_to_global(address)));
    return value;
}
// Of global memory that nothing writes during the launch.
template <typename T>
__device__ __forceinline__ T load_read_only(const T* address) {
    return __ldg(address);
}

// Each returns the value from before. T is int, unsigned, unsigned long long, or, for add,
// exchange, float.
template <typename T>
__device__ __forceinline__ T atomic_add(T* address, T value) {
    return atomicAdd(address, value);
}
template <typename T>
__device__ __forceinline__ T atomic_max(T* address, T value) {
    return atomicMax(address, value);
}
template <typename T>
__device__ __forceinline__ T atomic_min(T* address, T value) {
    return atomicMin(address, value);
}
template <typename T>
__device__ __forceinline__ T atomic_or(T* address, T value) {
    return atomicOr(address, value);
}
template <typename T>
__device__ __forceinline__ T atomic_exchange(T* address, T value) {
    return atomicExch(address, value);
}
// Stores `value` where *address is `expected`.
template <typename T>
__device__ __forceinline__ T atomic_cas(T* address, T expected, T value) {
    return atomicCAS(address, expected, value);
}

// Reads memory that other threads write, as in a loop that waits for them.
template <typename T>
__device__ __forceinline__ T load_volatile(const T* address) {
    return *static_cast<const volatile T*>(address);
}

// Earlier writes are seen by the device (block) before later ones.
__device__ __forceinline__ void thread_fence() { __threadfence(); }
__device__ __forceinline__ void thread_fence_block() { __threadfence_block(); }

}  // namespace nvllm::gpu
