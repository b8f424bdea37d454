// Shuffles, votes and synchronisation of a warp's lanes.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives/ptx/words.h"

namespace nvllm::gpu {

constexpr uint32_t full_mask = 0xffffffffu;
constexpr int warp_size = 32;

// By the flat number of the thread in its block.
__device__ __forceinline__ int flat_thread() {
    return static_cast<int>((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
}
__device__ __forceinline__ int lane_id() { return flat_thread() & 31; }
__device__ __forceinline__ int warp_id() { return flat_thread() / 32; }

// The value of lane `lane` of the whole warp.
template <typename T>
__device__ __forceinline__ T shuffle(T value, int lane, uint32_t mask = full_mask) {
    return __shfl_sync(mask, value, lane);
}
template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, int lane_mask, uint32_t mask = full_mask) {
    return __shfl_xor_sync(mask, value, lane_mask);
}
// The value of the lane `count` further up; beyond the warp's end the lane's own.
template <typename T>
__device__ __forceinline__ T shuffle_down(T value, int count, uint32_t mask = full_mask) {
    return __shfl_down_sync(mask, value, static_cast<unsigned>(count));
}
template <typename T>
__device__ __forceinline__ T shuffle_up(T value, int count, uint32_t mask = full_mask) {
    return __shfl_up_sync(mask, value, static_cast<unsigned>(count));
}

__device__ __forceinline__ void sync_warp(uint32_t mask = full_mask) { __syncwarp(mask); }
// Bit i: the predicate of lane i.
__device__ __forceinline__ uint32_t ballot(bool predicate, uint32_t mask = full_mask) {
    return __ballot_sync(mask, predicate);
}
__device__ __forceinline__ bool any(bool predicate, uint32_t mask = full_mask) {
    return __any_sync(mask, predicate);
}
__device__ __forceinline__ bool all(bool predicate, uint32_t mask = full_mask) {
    return __all_sync(mask, predicate);
}
__device__ __forceinline__ uint32_t active_mask() { return __activemask(); }

}  // namespace nvllm::gpu
