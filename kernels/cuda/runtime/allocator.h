// Device memory that is kept for reuse when it is released, and counted.
//
// Asking a driver for memory waits for the device; a cached block costs a look-up. A released block
// serves the next request that it is not much too large for. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nvllm::cuda {

struct AllocatorStats {
    uint64_t in_use_bytes = 0;
    uint64_t cached_bytes = 0;  // taken from the driver and in no use
    uint64_t peak_bytes = 0;    // most in use at one time
};

// `bytes` of a device's memory, aligned to 256. Throws does_not_fit, with what there is.
void* allocate(int device, size_t bytes);
void release(int device, void* memory);
// Gives what is cached back to the driver.
void trim(int device);
AllocatorStats allocator_stats(int device);

}  // namespace nvllm::cuda
