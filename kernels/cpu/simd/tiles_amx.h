// The processor's tile registers (Intel AMX; Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 2, TDPBF16PS and its neighbours).
//
// Inline assembly: gcc's intrinsics take a tile's number as a literal only.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/tile_shape.h"

namespace nvllm::cpu {

struct AmxInstructions {
    // Waits for all tile products before it, so it is left out where shapes are as they were.
    static void configure(const TileShapes& shapes) {
        if (shapes == configured_) return;
        configured_ = shapes;
        struct alignas(64) {
            uint8_t palette = 1;
            uint8_t start_row = 0;
            uint8_t reserved[14] = {};
            uint16_t row_bytes[16] = {};
            uint8_t rows[16] = {};
        } config;
        for (int tile = 0; tile < kNumTiles; ++tile) {
            config.row_bytes[tile] = shapes.of[tile].row_bytes;
            config.rows[tile] = shapes.of[tile].rows;
        }
        asm volatile("ldtilecfg %0" : : "m"(config));
    }
    // Threads without tiles in use are switched faster.
    static void release() {
        configured_ = {};
        asm volatile("tilerelease");
    }

    template <int tile>
    static void zero() {
        asm volatile("tilezero %%tmm%c0" : : "i"(tile));
    }
    // Rows `stride` bytes apart.
    template <int tile>
    static void load(const void* rows, int64_t stride) {
        asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(rows), "r"(stride), "i"(tile)
                     : "memory");
    }
    template <int tile>
    static void store(void* rows, int64_t stride) {
        asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                     :
                     : "r"(rows), "r"(stride), "i"(tile)
                     : "memory");
    }
    // sum[m][n] += left[m][k] * right[k][n] over words of k.
    template <TileProduct product, int sum, int left, int right>
    static void multiply() {
        keep_vectors_awake();
        if constexpr (product == TileProduct::bfloat16) {
            asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                         :
                         : "i"(sum), "i"(left), "i"(right));
        } else if constexpr (product == TileProduct::unsigned_by_signed) {
            asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                         :
                         : "i"(sum), "i"(left), "i"(right));
        } else {
            asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                         :
                         : "i"(sum), "i"(left), "i"(right));
        }
    }

  private:
    // Where nothing but tiles has been at work for 0.55 us the next store of a tile takes 0.25 us
    // longer: it waits for the processor's wide multipliers, which went to sleep. A product of
    // vectors every now and then keeps them up, and costs next to nothing.
    [[gnu::always_inline]] static void keep_vectors_awake() {
        asm volatile(
            "vxorps %%xmm15, %%xmm15, %%xmm15\n\t"
            "vmulps %%zmm15, %%zmm15, %%zmm15"
            :
            :
            : "xmm15");
    }

    static inline thread_local TileShapes configured_{};
};

}  // namespace nvllm::cpu
