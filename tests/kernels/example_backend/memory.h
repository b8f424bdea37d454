// The memory of the example's devices: addresses that the host cannot read.
//
// A device's address is the host's with one bit more, so that the caller follows it outside of the
// module ends with a fault.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"

namespace example {

inline constexpr uint64_t kDeviceBit = uint64_t{1} << 60;
inline constexpr uint64_t kMemoryBytes = uint64_t{512} << 20;  // of each device

void* allocate(int device, size_t bytes);
void release(int device, void* memory);
nvllm::DeviceMemoryStats memory_stats(int device);

// Where the host finds a byte of a device.
template <typename T>
T* host(T* memory) {
    return reinterpret_cast<T*>(reinterpret_cast<uint64_t>(memory) & ~kDeviceBit);
}

}  // namespace example
