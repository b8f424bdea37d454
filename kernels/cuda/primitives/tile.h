// Tiles in shared memory that tensor maps fill and warpgroups multiply: how their bytes are
// permuted. Host and device.
#pragma once

#include <cstdint>

namespace nvllm::gpu {

// Which 16-byte chunks of a row change places, by the row within a group: rows of as many bytes as
// the name says. The values are those of a warpgroup's matrix descriptor.
enum class Swizzle : uint8_t { none = 0, bytes128 = 1, bytes64 = 2, bytes32 = 3 };

__host__ __device__ constexpr uint32_t swizzle_row_bytes(Swizzle swizzle) {
    return swizzle == Swizzle::bytes128  ? 128
           : swizzle == Swizzle::bytes64 ? 64
           : swizzle == Swizzle::bytes32 ? 32
                                         : 16;
}

// Where the byte that would lie at a shared address lies instead.
__host__ __device__ constexpr uint32_t swizzled_address(Swizzle swizzle, uint32_t address) {
    switch (swizzle) {
        case Swizzle::bytes128:
            return address ^ (address >> 3 & 0x70);
        case Swizzle::bytes64:
            return address ^ (address >> 3 & 0x30);
        case Swizzle::bytes32:
            return address ^ (address >> 3 & 0x10);
        case Swizzle::none:
            break;
    }
    return address;
}

// A matrix in global memory, and the box of it that one copy moves. Rows of `columns` elements of
// 2 bytes, `row_bytes` apart (a multiple of 16); what a box has beyond the edges becomes 0.
struct TiledMatrix {
    const void* data = nullptr;  // aligned to 16 bytes
    uint32_t rows = 0;
    uint32_t columns = 0;
    uint64_t row_bytes = 0;
    uint32_t box_rows = 0;     // at most 256
    uint32_t box_columns = 0;  // at most a swizzled row
    Swizzle swizzle = Swizzle::bytes128;
};

// What a warpgroup is told of a tile at shared address `address`: rows of one swizzled row's bytes,
// groups of eight rows one after the other. 32 bytes further are the next 16 columns.
__host__ __device__ constexpr uint64_t matrix_descriptor(uint32_t address, Swizzle swizzle) {
    const uint64_t group_bytes = 8 * swizzle_row_bytes(swizzle);
    return uint64_t{(address & 0x3ffff) >> 4} | uint64_t{1} << 16 | (group_bytes >> 4) << 32 |
           static_cast<uint64_t>(swizzle) << 62;
}

}  // namespace nvllm::gpu
