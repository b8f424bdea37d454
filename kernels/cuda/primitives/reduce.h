// Sums and maxima over a warp and over a block, in an order that does not depend on the batch. The
// same text serves nvcc and the emulation.
#pragma once

namespace nvllm::gpu {

// Over the whole warp; every lane gets the result.
template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
    for (int distance = 16; distance > 0; distance /= 2) value += shuffle_xor(value, distance);
    return value;
}
template <typename T>
__device__ __forceinline__ T warp_max(T value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        const T other = shuffle_xor(value, distance);
        value = value < other ? other : value;
    }
    return value;
}

// Over all threads of a one-dimensional block of whole warps; every thread gets the result.
// `shared` has room for 32 values. Waits twice for the block: before the first use of `shared`, so
// that calls may follow one another, and after the writes.
template <typename T>
__device__ __forceinline__ T block_sum(T value, T* shared) {
    value = warp_sum(value);
    __syncthreads();
    if (lane_id() == 0) shared[warp_id()] = value;
    __syncthreads();
    return warp_sum(lane_id() < static_cast<int>(blockDim.x / 32) ? shared[lane_id()] : T(0));
}
template <typename T>
__device__ __forceinline__ T block_max(T value, T* shared) {
    value = warp_max(value);
    __syncthreads();
    if (lane_id() == 0) shared[warp_id()] = value;
    __syncthreads();
    return warp_max(lane_id() < static_cast<int>(blockDim.x / 32) ? shared[lane_id()] : shared[0]);
}

}  // namespace nvllm::gpu
