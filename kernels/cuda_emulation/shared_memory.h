// A block's shared memory: one arena, filled with 0xFF before each block, with a gap after every
// array.
//
// 0xFF is NaN in every float format and -1 in integers, so that reading unwritten memory shows. A
// gap that a block has written to is a fault at the block's end; AddressSanitizer reports it at
// once, access hooks do as well.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_emulation/site.h"

namespace nvllm::gpu::emulation {

// What a block may have on the devices that the project is for (sm_90: 227 KiB; sm_80: 163 KiB).
constexpr size_t kMaxSharedBytes = 227 * 1024;
constexpr size_t kMaxStaticSharedBytes = 48 * 1024;

// Lays out the arena for a block with `dynamic_bytes` of dynamic shared memory.
void begin_shared_memory(size_t dynamic_bytes);
// Checks the gaps of the block that has ended. Throws Fault.
void check_shared_memory();

// The static array that `key` stands for: the same memory for every thread of a block. `name` is
// for reports.
void* static_shared(const void* key, const char* name, size_t bytes, size_t alignment);
// The dynamic shared memory, aligned to 1024 bytes. Faults when a launch gave none.
void* dynamic_shared(const char* name);

// Whether an address lies in the arena.
bool is_shared(const void* address);
// The offset of a shared address from the arena's begin, as a device's shared address is. Faults
// for other addresses.
uint32_t shared_offset(const void* address, const Site& where);
// The inverse: the memory at an offset.
std::byte* shared_at(uint32_t offset);
// The name of the array that bytes [address, address + bytes) lie in; null when they are not wholly
// within one.
const char* shared_array_at(const void* address, size_t bytes);

}  // namespace nvllm::gpu::emulation

// GPU_SHARED(float, sums, [8][32]): a static shared array `sums`, at a multiple of 16 bytes, or of
// more where its type wants it. GPU_DYNAMIC_SHARED(float, rows): `float* rows`.
#define GPU_SHARED(type, name, extent)                                            \
    typedef type name##_shared_type extent;                                       \
    static char name##_shared_key;                                                \
    name##_shared_type& name =                                                    \
        *static_cast<name##_shared_type*>(::nvllm::gpu::emulation::static_shared( \
            &name##_shared_key, #name, sizeof(name##_shared_type),                \
            alignof(name##_shared_type) > 16 ? alignof(name##_shared_type) : 16))
#define GPU_DYNAMIC_SHARED(type, name) \
    type* name = static_cast<type*>(::nvllm::gpu::emulation::dynamic_shared(#name))
