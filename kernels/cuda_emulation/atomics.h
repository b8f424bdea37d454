// Atomic operations on global and shared memory, and fences.
#pragma once

#include <cstdint>

#include "kernels/cuda_emulation/site.h"

namespace nvllm::gpu {

// Each returns the value from before. T is int, unsigned, unsigned long long, or, for add,
// exchange, float.
template <typename T>
T atomic_add(T* address, T value, emulation::Site where = emulation::Site::here());
template <typename T>
T atomic_max(T* address, T value, emulation::Site where = emulation::Site::here());
template <typename T>
T atomic_min(T* address, T value, emulation::Site where = emulation::Site::here());
template <typename T>
T atomic_or(T* address, T value, emulation::Site where = emulation::Site::here());
template <typename T>
T atomic_exchange(T* address, T value, emulation::Site where = emulation::Site::here());
// Stores `value` where *address is `expected`.
template <typename T>
T atomic_cas(T* address, T expected, T value, emulation::Site where = emulation::Site::here());

// Reads memory that other threads write, as in a loop that waits for them.
template <typename T>
T load_volatile(const T* address, emulation::Site where = emulation::Site::here());

// Earlier writes are seen by the device (block) before later ones.
void thread_fence();
void thread_fence_block();

}  // namespace nvllm::gpu
