// The kernels that multiply by tiles, on tiles of plain C++: they run on every machine.
//
// Operation by operation what Intel's Software Developer's Manual, volume 2, says of the
// instructions of AMX; where the processor has them, isa_test holds this to their bits.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/tile_shape.h"

namespace testing {

struct EmulatedTiles {
    static void configure(const nvllm::cpu::TileShapes& shapes);
    static void release();

    template <int tile>
    static void zero() {
        zero_tile(tile);
    }
    template <int tile>
    static void load(const void* rows, int64_t stride) {
        load_tile(tile, rows, stride);
    }
    template <int tile>
    static void store(void* rows, int64_t stride) {
        store_tile(tile, rows, stride);
    }
    template <nvllm::cpu::TileProduct product, int sum, int left, int right>
    static void multiply() {
        if constexpr (product == nvllm::cpu::TileProduct::bfloat16) {
            multiply_bf16(sum, left, right);
        } else if constexpr (product == nvllm::cpu::TileProduct::unsigned_by_signed) {
            multiply_bytes<uint8_t, int8_t>(sum, left, right);
        } else {
            multiply_bytes<int8_t, int8_t>(sum, left, right);
        }
    }

    static void pack_words(const float* x, int64_t stride, int64_t rows, int64_t count,
                           uint32_t* words);
    static void transpose(const float* from, int64_t stride, float (&turned)[16][16]);

  private:
    static void zero_tile(int tile);
    static void load_tile(int tile, const void* rows, int64_t stride);
    static void store_tile(int tile, void* rows, int64_t stride);
    static void multiply_bf16(int sum, int left, int right);
    template <typename Left, typename Right>
    static void multiply_bytes(int sum, int left, int right);
};

// The scalar kernels, but for products of bfloat16 operands and of integers.
const nvllm::cpu::Kernels& emulated_amx_kernels();

}  // namespace testing
