// Fragments of queries, keys and values for mma_m16n8k16, from shared memory. For .cu files only.
//
// Where a value is stored in two bytes, chunks are what ldmatrix gives each thread. Where it is
// stored in one, ldmatrix moves pairs: of a row of keys a thread gets four neighbours of its
// sixteen, so queries are stored in the order that matches; of values it gets two positions of two
// neighbouring columns, so a pair of tiles of the output is their even and their odd columns.
#pragma once

#include "kernels/cuda/attention/attention_tiles.h"

namespace nvllm::cuda {

constexpr int kRowsPerWarp = 16;
constexpr int kKeyTilesOfTile = kTile / 8;

// Index of chunk `chunk` of row `row` in a tile whose rows have `chunks` chunks of `values` values.
// Rows of 64 bytes lie two beside each other in the banks.
template <int chunks, int values>
__device__ __forceinline__ int swizzled(int row, int chunk) {
    const int turn = chunks >= 8 ? row & 7 : (row >> 1) & (chunks - 1);
    return (row * chunks + (chunk ^ turn)) * values;
}

template <typename T, typename C, int dim>
struct QueryFragments {
    static constexpr int kChunks = dim / 8;

    // Run `chunk` of a row.
    static __device__ __forceinline__ void store(T* queries, int row, int chunk,
                                                 const float (&values)[kRun]) {
        if constexpr (sizeof(C) == 2) {
            store_packed(queries + swizzled<kChunks, 8>(row, chunk), values);
        } else {
            // Of each four values the first two belong to the lower half of the sixteen.
            const int first = chunk & ~1;
            const int offset = (chunk & 1) * 4;
            gpu::store8(queries + swizzled<kChunks, 8>(row, first) + offset,
                        {gpu::pack2<T>(values[0], values[1]), gpu::pack2<T>(values[4], values[5])});
            gpu::store8(queries + swizzled<kChunks, 8>(row, first + 1) + offset,
                        {gpu::pack2<T>(values[2], values[3]), gpu::pack2<T>(values[6], values[7])});
        }
    }

    // Sixteen dimensions of sixteen rows.
    static __device__ __forceinline__ void load(const T* queries, int first_row, int sixteen,
                                                uint32_t (&a)[4]) {
        const int lane = gpu::lane_id();
        gpu::ldmatrix_x4(
            a, queries + swizzled<kChunks, 8>(first_row + (lane & 15), 2 * sixteen + (lane >> 4)));
    }
};

// Accumulators of two tiles of scores as the left operand's fragment.
template <typename T>
__device__ __forceinline__ void weights_fragment(const float (&low)[4], const float (&high)[4],
                                                 uint32_t (&a)[4]) {
    a[0] = gpu::pack2<T>(low[0], low[1]);
    a[1] = gpu::pack2<T>(low[2], low[3]);
    a[2] = gpu::pack2<T>(high[0], high[1]);
    a[3] = gpu::pack2<T>(high[2], high[3]);
}

// Keys and values as they are stored, in two bytes each: C is T.
template <typename T, typename C, int dim>
struct StoredFragments {
    static constexpr int kPerChunk = 8;  // values of 16 bytes
    static constexpr int kChunks = dim / kPerChunk;
    // Rounds of sixteen dimensions at a time: of 256 dimensions all addresses do not fit.
    static constexpr int kUnrolled = dim > 128 ? 2 : dim / 16;

    static __device__ __forceinline__ int place(int row, int chunk) {
        return swizzled<kChunks, kPerChunk>(row, chunk);
    }

    // scores = queries of the warp times keys of the tile, from row `first_key` on.
    template <int key_tiles>
    static __device__ __forceinline__ void multiply_keys(const T* queries, int first_row,
                                                         const C* keys, int first_key,
                                                         float (&scores)[key_tiles][4]) {
        static_assert(key_tiles % 2 == 0);
        const int lane = gpu::lane_id();
        const int key_row = first_key + (lane >> 4) * 8 + (lane & 7);
        clear(scores);
#pragma unroll kUnrolled
        for (int k = 0; k < dim / 16; ++k) {
            uint32_t a[4];
            QueryFragments<T, C, dim>::load(queries, first_row, k, a);
#pragma unroll
            for (int j = 0; j < key_tiles; j += 2) {
                uint32_t b[4];
                gpu::ldmatrix_x4(b, keys + place(8 * j + key_row, 2 * k + ((lane >> 3) & 1)));
                const uint32_t first[2] = {b[0], b[1]};
                const uint32_t second[2] = {b[2], b[3]};
                gpu::mma_m16n8k16<T>(scores[j], a, first);
                gpu::mma_m16n8k16<T>(scores[j + 1], a, second);
            }
        }
    }

    // sums += weights times values of the tile, their columns from those of tile `first_tile` on.
    template <int column_tiles>
    static __device__ __forceinline__ void multiply_values(
        const C* values, int first_tile, const float (&weights)[kKeyTilesOfTile][4],
        float (&sums)[column_tiles][4]) {
        static_assert(column_tiles % 2 == 0);
        const int lane = gpu::lane_id();
#pragma unroll
        for (int k = 0; k < kTile / 16; ++k) {
            uint32_t a[4];
            weights_fragment<T>(weights[2 * k], weights[2 * k + 1], a);
            const int row = 16 * k + ((lane >> 3) & 1) * 8 + (lane & 7);
#pragma unroll
            for (int j = 0; j < column_tiles; j += 2) {
                uint32_t b[4];
                gpu::ldmatrix_x4_transposed(b, values + place(row, first_tile + j + (lane >> 4)));
                const uint32_t first[2] = {b[0], b[1]};
                const uint32_t second[2] = {b[2], b[3]};
                gpu::mma_m16n8k16<T>(sums[j], a, first);
                gpu::mma_m16n8k16<T>(sums[j + 1], a, second);
            }
        }
    }

    // Where pair j of a thread's sums of a row lies in the row, and its values.
    static __device__ __forceinline__ int column(int j, int lane) { return 8 * j + 2 * (lane & 3); }
    template <int column_tiles>
    static __device__ __forceinline__ float2 pair(const float (&sums)[column_tiles][4], int j,
                                                  int half) {
        return make_float2(sums[j][2 * half], sums[j][2 * half + 1]);
    }

    template <int tiles>
    static __device__ __forceinline__ void clear(float (&scores)[tiles][4]) {
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[j][i] = 0.0f;
        }
    }
};

// In one byte each, dequantized to T in registers.
template <typename T, typename C, int dim>
requires(sizeof(C) == 1) struct StoredFragments<T, C, dim> {
    static constexpr int kPerChunk = 16;
    static constexpr int kChunks = dim / kPerChunk;
    static constexpr int kUnrolled = dim > 128 ? 1 : dim / 64;  // rounds of 64 dimensions
    using Bytes = gpu::ByteQuads<C>;

    static __device__ __forceinline__ int place(int row, int chunk) {
        return swizzled<kChunks, kPerChunk>(row, chunk);
    }

    template <int key_tiles>
    static __device__ __forceinline__ void multiply_keys(const T* queries, int first_row,
                                                         const C* keys, int first_key,
                                                         float (&scores)[key_tiles][4]) {
        const int lane = gpu::lane_id();
        StoredFragments<T, T, dim>::clear(scores);
#pragma unroll kUnrolled
        for (int k = 0; k < dim / 16; k += 4) {
            uint32_t a[4][4];
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                QueryFragments<T, C, dim>::load(queries, first_row, k + m, a[m]);
            }
#pragma unroll
            for (int j = 0; j < key_tiles; ++j) {
                uint32_t b[4];
                gpu::ldmatrix_x4(b, keys + place(first_key + 8 * j + (lane & 7), k + (lane >> 3)));
#pragma unroll
                for (int m = 0; m < 4; ++m) {
                    uint32_t pairs[2];
                    Bytes::template dequantize<T>(b[m], pairs);
                    gpu::mma_m16n8k16<T>(scores[j], a[m], pairs);
                }
            }
        }
    }

    template <int column_tiles>
    static __device__ __forceinline__ void multiply_values(
        const C* values, int first_tile, const float (&weights)[kKeyTilesOfTile][4],
        float (&sums)[column_tiles][4]) {
        static_assert(column_tiles % 4 == 0);
        const int lane = gpu::lane_id();
#pragma unroll
        for (int k = 0; k < kTile / 16; ++k) {
            uint32_t a[4];
            weights_fragment<T>(weights[2 * k], weights[2 * k + 1], a);
            const int row = 16 * k + ((lane >> 3) & 1) * 8 + (lane & 7);
#pragma unroll
            for (int chunk = 0; chunk < column_tiles / 2; chunk += 2) {
                uint32_t b[4];
                gpu::ldmatrix_x4_transposed(
                    b, values + place(row, first_tile / 2 + chunk + (lane >> 4)));
                multiply_chunk(a, b[0], b[1], sums[2 * chunk], sums[2 * chunk + 1]);
                multiply_chunk(a, b[2], b[3], sums[2 * chunk + 2], sums[2 * chunk + 3]);
            }
        }
    }

    static __device__ __forceinline__ int column(int j, int lane) {
        return 16 * (j / 2) + 4 * (lane & 3) + 2 * (j & 1);
    }
    template <int column_tiles>
    static __device__ __forceinline__ float2 pair(const float (&sums)[column_tiles][4], int j,
                                                  int half) {
        const int i = 2 * half + (j & 1);
        return make_float2(sums[j & ~1][i], sums[j | 1][i]);
    }

  private:
    // Sixteen columns: of each factor two positions of two columns.
    static __device__ __forceinline__ void multiply_chunk(const uint32_t (&a)[4], uint32_t low,
                                                          uint32_t high, float (&even)[4],
                                                          float (&odd)[4]) {
        constexpr uint32_t kByColumn = 0x3120;  // bytes 0 and 2, then 1 and 3
        uint32_t low_pairs[2], high_pairs[2];
        Bytes::template dequantize<T>(gpu::permute_bytes(low, 0, kByColumn), low_pairs);
        Bytes::template dequantize<T>(gpu::permute_bytes(high, 0, kByColumn), high_pairs);
        const uint32_t even_operand[2] = {low_pairs[0], high_pairs[0]};
        const uint32_t odd_operand[2] = {low_pairs[1], high_pairs[1]};
        gpu::mma_m16n8k16<T>(even, a, even_operand);
        gpu::mma_m16n8k16<T>(odd, a, odd_operand);
    }
};

}  // namespace nvllm::cuda
