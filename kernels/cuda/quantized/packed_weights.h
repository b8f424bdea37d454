// How quantized weights are packed for the GPU, and how their quantized values become operands. For
// .cu files only.
//
// Quantized values: tiles of 8 columns (outputs), each a row of units of 128 values of k (4-bit
// values) or 64 (8-bit ones). A unit is 16 bytes for each lane of a warp: what that lane holds of
// the right factor of the unit's mma.m16n8k16 steps, so that one load feeds four or eight of them.
// Lane l has column l / 4 and, of each step of 16 k, k = 2t, 2t + 1, 2t + 8, 2t + 9 with t = l % 4.
// Of 8-bit quantized values a word is a step, a byte a code in that order. Of 4-bit values a word
// is two steps; pair p of quantized values (two a step) lies in bits 4p .. 4p + 3 and 16 + 4p .. 16
// + 4p + 3, so that a mask gives both halves of a register (Frantar et al. 2024, MARLIN, has the
// idea). Integers are stored plus 8 or 128.
//
// Then scales [groups][columns] and zero points likewise: neighbours are what one lane needs.
#pragma once

#include "kernels/cuda/elements.h"
#include "kernels/error.h"
#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cuda {

// A code as a type.
template <ops::WeightFormat value>
struct Code {
    static constexpr ops::WeightFormat kValue = value;
};

// body(Code<code>{}) for quantized values of every weight, and for those of what two of each four
// keep.
template <typename Body>
void with_dense_format(ops::WeightFormat code, const Body& body) {
    switch (code) {
        case ops::WeightFormat::int4:
            return body(Code<ops::WeightFormat::int4>{});
        case ops::WeightFormat::int8:
            return body(Code<ops::WeightFormat::int8>{});
        case ops::WeightFormat::float4:
            return body(Code<ops::WeightFormat::float4>{});
        case ops::WeightFormat::float8:
            return body(Code<ops::WeightFormat::float8>{});
        default:
            NVLLM_CHECK(false, "a code of every weight");
    }
}
template <typename Body>
void with_sparse_format(ops::WeightFormat code, const Body& body) {
    switch (code) {
        case ops::WeightFormat::sparse_bfloat16:
            return body(Code<ops::WeightFormat::sparse_bfloat16>{});
        case ops::WeightFormat::sparse_float16:
            return body(Code<ops::WeightFormat::sparse_float16>{});
        case ops::WeightFormat::sparse_float8:
            return body(Code<ops::WeightFormat::sparse_float8>{});
        default:
            NVLLM_CHECK(false, "a code of what two of each four keep");
    }
}

constexpr int kColumnTile = 8;
constexpr int kStepDepth = 16;
constexpr int kChunkBytes = 16;
// Values of k of one product on tensor cores, whose rows of x are 32 bytes: a step, or two where
// factors are bytes.
template <typename T>
constexpr int kMmaDepth = 32 / static_cast<int>(sizeof(T));
constexpr int kUnitBytes = 32 * kChunkBytes;
// Sparse matrices: packed_sparse_weights.h.
constexpr int kSparseColumnTile = 16;
constexpr int kPlacesBytes = 32 * 4;
constexpr __host__ __device__ int kept_bytes(ops::WeightFormat code) {
    return code == ops::WeightFormat::sparse_float8 ? 1 : 2;
}

constexpr __host__ __device__ bool is_nibble(ops::WeightFormat code) {
    return code == ops::WeightFormat::int4 || code == ops::WeightFormat::float4;
}
constexpr __host__ __device__ int unit_depth(ops::WeightFormat code) {
    return is_nibble(code) ? 128 : 64;
}
constexpr __host__ __device__ int column_tile(ops::WeightFormat code) {
    return ops::is_sparse(code) ? kSparseColumnTile : kColumnTile;
}
constexpr __host__ __device__ int unit_bytes(ops::WeightFormat code) {
    return ops::is_sparse(code) ? kPlacesBytes + kept_bytes(code) * kUnitBytes : kUnitBytes;
}

// Where the parts of a packed matrix lie, as plain data.
struct PackedQuantized {
    int64_t columns;  // padded to whole tiles
    int64_t units;    // of a tile
    int64_t groups;
    int64_t scales;  // offsets
    int64_t zero_points;
    int64_t bytes;
};

inline PackedQuantized packed_parts(const ops::QuantizedLayout& layout) {
    const auto in_lines = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
    PackedQuantized parts{};
    const int tile = column_tile(layout.code);
    parts.columns = int64_t{blocks_for(layout.out, tile)} * tile;
    parts.units = blocks_for(layout.in, unit_depth(layout.code));
    parts.groups = layout.groups();
    const int64_t values = parts.groups * parts.columns;
    parts.scales = in_lines(parts.columns / tile * parts.units * unit_bytes(layout.code));
    parts.zero_points =
        in_lines(parts.scales + values * static_cast<int64_t>(dtype_bytes(layout.scale_type)));
    parts.bytes = parts.zero_points + (layout.has_zero_points ? values : 0);
    return parts;
}

// The k of a lane's value `index` (0 .. 3) within a step.
__device__ __forceinline__ int k_of(int lane, int index) {
    return 2 * (lane & 3) + (index & 1) + (index >> 1) * 8;
}

// Where value k of a row of x lies among factors of one byte: within a step in the order in which
// lanes have quantized values, so that four neighbours are what k_of() gives to a lane.
__device__ __forceinline__ int place_of(int k) {
    return (k & ~15) | (k & 6) << 1 | (k >> 2 & 2) | (k & 1);
}

// The four quantized values of a step, raw, one a byte of the result in the order of k_of().
template <ops::WeightFormat code>
__device__ __forceinline__ uint32_t quantized_of_step(const uint32_t (&words)[4], int step) {
    if constexpr (is_nibble(code)) {
        const uint32_t pairs = words[step >> 1] >> (8 * (step & 1));  // pairs 0 and 1 of the step
        return (pairs & 0xfu) | (pairs >> 16 & 0xfu) << 8 | (pairs >> 4 & 0xfu) << 16 |
               (pairs >> 20 & 0xfu) << 24;
    } else {
        return words[step];
    }
}

// What a raw code stands for, less its zero point.
template <ops::WeightFormat code>
__device__ __forceinline__ float factor_of(uint32_t raw, int zero_point) {
    if constexpr (code == ops::WeightFormat::int4) {
        return static_cast<float>(static_cast<int>(raw) - 8 - zero_point);
    } else if constexpr (code == ops::WeightFormat::int8) {
        return static_cast<float>(static_cast<int>(raw) - 128 - zero_point);
    } else if constexpr (code == ops::WeightFormat::float4) {
        // Sign, exponent and mantissa in their places of a float, then the exponent's bias.
        return gpu::bits_as_float((raw & 8u) << 28 | (raw & 7u) << 22) * 0x1p126f;
    } else {
        if ((raw & 0x7fu) == 0x7fu) return gpu::bits_as_float(0x7fc00000u);
        return gpu::bits_as_float((raw & 0x80u) << 24 | (raw & 0x7fu) << 20) * 0x1p120f;
    }
}

// The right operand's fragment of a step, exact in T.
template <typename T, ops::WeightFormat code>
struct Dequantize {
    static __device__ __forceinline__ void fragment(const uint32_t (&words)[4], int step,
                                                    int zero_point, uint32_t (&b)[2]) {
        const uint32_t raw = quantized_of_step<code>(words, step);
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
            b[pair] = gpu::pack2<T>(factor_of<code>(raw >> (16 * pair) & 0xffu, zero_point),
                                    factor_of<code>(raw >> (16 * pair + 8) & 0xffu, zero_point));
        }
    }
};

// A power of two below whose mantissa's end lies an integer: OR of the code's bits adds it.
template <typename T>
struct IntegerBase;
template <>
struct IntegerBase<__nv_bfloat16> {
    static constexpr uint32_t kBits = 0x4300;  // 128, the last bit is 1
    static constexpr int kValue = 128;
};
template <>
struct IntegerBase<__half> {
    static constexpr uint32_t kBits = 0x6400;  // 1024, the last bit is 1
    static constexpr int kValue = 1024;
};

// 4-bit integers without a conversion: two quantized values at a time become base + code + 8, from
// which the base, 8 and the zero point are taken.
template <typename T>
requires(sizeof(T) == 2) struct Dequantize<T, ops::WeightFormat::int4> {
    static __device__ __forceinline__ void fragment(const uint32_t (&words)[4], int step,
                                                    int zero_point, uint32_t (&b)[2]) {
        using Base = IntegerBase<T>;
        constexpr uint32_t kBoth = Base::kBits << 16 | Base::kBits;
        const auto shift = static_cast<float>(Base::kValue + 8 + zero_point);
        const uint32_t less = gpu::pack2<T>(shift, shift);
        const uint32_t pairs = words[step >> 1] >> (8 * (step & 1));
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
            // (codes & mask) | base
            const uint32_t sum =
                gpu::logic3<(0xf0 & 0xcc) | 0xaa>(pairs >> (4 * pair), 0x000f000fu, kBoth);
            b[pair] = gpu::subtract2<T>(sum, less);
        }
    }
};

// Quantized values of 8 bits four at a time.
template <typename T>
requires(sizeof(T) == 2) struct Dequantize<T, ops::WeightFormat::int8> {
    static __device__ __forceinline__ void fragment(const uint32_t (&words)[4], int step,
                                                    int zero_point, uint32_t (&b)[2]) {
        const auto less = static_cast<float>(zero_point);
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
            using Quad = gpu::ByteQuads<int8_t>;
            b[pair] = gpu::pack2<T>(Quad::value(words[step], 2 * pair) - less,
                                    Quad::value(words[step], 2 * pair + 1) - less);
        }
    }
};
template <typename T>
requires(sizeof(T) == 2) struct Dequantize<T, ops::WeightFormat::float8> {
    static __device__ __forceinline__ void fragment(const uint32_t (&words)[4], int step, int,
                                                    uint32_t (&b)[2]) {
        gpu::ByteQuads<__nv_fp8_e4m3>::dequantize<T>(words[step], b);
    }
};

// Four raw quantized values at once, as integers of one byte: less what was added for storage and
// less the zero point. REQUIRES: of 8 bits no zero point, of 4 bits one from -8 to 119.
template <ops::WeightFormat code>
__device__ __forceinline__ uint32_t integers_of(uint32_t raw, int zero_point) {
    constexpr uint32_t kSigns = 0x80808080u;
    if constexpr (code == ops::WeightFormat::int8) return raw ^ kSigns;
    // The sign bits, set, keep a byte from borrowing of its neighbour.
    return ((raw | kSigns) - 0x01010101u * static_cast<uint32_t>(zero_point + 8)) ^ kSigns;
}

// Of two steps, as bytes.
template <ops::WeightFormat code>
struct Dequantize<int8_t, code> {
    static __device__ __forceinline__ void fragment(const uint32_t (&words)[4], int step,
                                                    int zero_point, uint32_t (&b)[2]) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            b[half] =
                integers_of<code>(quantized_of_step<code>(words, 2 * step + half), zero_point);
        }
    }
};

}  // namespace nvllm::cuda
