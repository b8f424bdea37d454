// How weights that keep two of each four neighbours are packed for the GPU, and how their values
// become operands. For .cu files only.
//
// They are the left operand of mma.sp.m16n8k32, so y is computed turned: 16 columns of y by 8
// tokens. Tiles of 16 columns, each a row of units of 64 values of k, two steps of 32. A unit is,
// for each lane of a warp, a word of places, then 16 bytes (8-bit values) or 32 of what is kept.
//
// Lane l has rows l / 4 and l / 4 + 8 of the tile (the first and the second of what follows). Of a
// step its register r holds the two values kept of the four that begin at k = 4 t + 16 (r / 2),
// t = l % 4, of row r % 2. Places are two bits for each value, a nibble for each four, the first
// value's place in its low half; a half of a word is 16 values of k of one row. The instruction
// takes the places of a step from two lanes of each four: lanes t = 0, 1 have those of the first
// step, k from 0 and from 16 on, lanes t = 2, 3 those of the second. (PTX ISA, "Sparsity
// metadata".)
//
// So a packed matrix has 9/16 of the dense bytes, in 8 bits 5/8, and one load of a word and one or
// two of 16 bytes feed two products of twice the usual depth.
//
// Behind the quantized values lie scales, [groups][columns], as packed_weights.h has them.
#pragma once

#include "kernels/cuda/quantized/packed_weights.h"

namespace nvllm::cuda {

constexpr int kSparseStepDepth = 32;
// Of four values of which none is there: any two different places in order.
constexpr uint32_t kNoPlaces = 0 | 1 << 2;

// A lane's part of a unit.
template <ops::WeightFormat code>
struct SparseUnit {
    static constexpr int kChunks = kept_bytes(code);
    uint32_t places;
    uint32_t words[4 * kChunks];

    __device__ __forceinline__ void load(const unsigned char* unit) {
        const int lane = gpu::lane_id();
        places = gpu::load_read_only(reinterpret_cast<const uint32_t*>(unit) + lane);
#pragma unroll
        for (int i = 0; i < kChunks; ++i) {
            const uint4 chunk =
                gpu::load_streaming16(unit + kPlacesBytes + (i * 32 + lane) * kChunkBytes);
            words[4 * i] = chunk.x;
            words[4 * i + 1] = chunk.y;
            words[4 * i + 2] = chunk.z;
            words[4 * i + 3] = chunk.w;
        }
    }

    // Value `index` (0 or 1) of register `r` of a step, raw.
    __device__ __forceinline__ uint32_t raw(int step, int r, int index) const {
        if constexpr (kept_bytes(code) == 2) {
            return words[4 * step + r] >> (16 * index) & 0xffffu;
        } else {
            return words[2 * step + r / 2] >> (16 * (r & 1) + 8 * index) & 0xffu;
        }
    }
    // REQUIRES: it is 0.
    __device__ __forceinline__ void set_raw(int step, int r, int index, uint32_t value) {
        if constexpr (kept_bytes(code) == 2) {
            words[4 * step + r] |= value << (16 * index);
        } else {
            words[2 * step + r / 2] |= value << (16 * (r & 1) + 8 * index);
        }
    }

    __device__ __forceinline__ float factor(int step, int r, int index) const {
        const uint32_t bits = raw(step, r, index);
        if constexpr (code == ops::WeightFormat::sparse_float8) {
            return factor_of<ops::WeightFormat::float8>(bits, 0);
        } else if constexpr (code == ops::WeightFormat::sparse_bfloat16) {
            return gpu::bits_as_float(bits << 16);
        } else {
            return gpu::to_float(__ushort_as_half(static_cast<unsigned short>(bits)));
        }
    }

    __device__ __forceinline__ void store(unsigned char* unit, int lane) const {
        reinterpret_cast<uint32_t*>(unit)[lane] = places;
#pragma unroll
        for (int i = 0; i < kChunks; ++i) {
            gpu::store16(
                unit + kPlacesBytes + (i * 32 + lane) * kChunkBytes,
                make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]));
        }
    }

    // The left operand's fragment of a step, exact in T.
    template <typename T>
    __device__ __forceinline__ void fragment(int step, uint32_t (&a)[4]) const {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if constexpr (kept_bytes(code) == sizeof(T)) {
                a[r] = words[4 * step + r];
            } else {
                a[r] = gpu::pack2<T>(factor(step, r, 0), factor(step, r, 1));
            }
        }
    }

    // The places of register `r`'s four values of k in a step, which another lane has: a nibble.
    // All lanes of the warp call it.
    __device__ __forceinline__ uint32_t places_of(int step, int r) const {
        const int lane = gpu::lane_id();
        const uint32_t word = gpu::shuffle(places, (lane & ~3) + 2 * step + r / 2);
        return word >> (16 * (r & 1) + 4 * (lane & 3)) & 0xfu;
    }
};

}  // namespace nvllm::cuda
