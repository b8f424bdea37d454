// Copies of tiles of keys and values to shared memory, overlapped with their matmuls. For .cu files
// only.
#pragma once

#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/kv_store.h"

namespace nvllm::cuda {

// Where the 64 positions of a tile lie in the cache, for blocks of `threads`.
template <typename Stored, typename C, int dim, int threads>
struct TileSource {
    // Chunks of a tile whose blocks are looked up together, as far as registers go.
    static constexpr int kCopiesAtOnce = dim > 128 ? 4 : 8;

    const AttentionCall& call;
    const int32_t* table;
    const C* keys;  // of the block's head
    const C* values;
    Visible seen;

    // Starts the copy of keys, values or both of the tile at `first` as one group; positions
    // that nothing in the block sees become 0.
    template <bool with_keys, bool with_values>
    __device__ __forceinline__ void start(int first, C* to_keys, C* to_values) const {
#pragma unroll kCopiesAtOnce
        for (int i = static_cast<int>(threadIdx.x); i < kTile * Stored::kChunks; i += threads) {
            const int row = i / Stored::kChunks;
            const int chunk = i % Stored::kChunks;
            const int position = first + row;
            const bool wanted = position >= seen.first && position < seen.end &&
                                chunk * Stored::kPerChunk < call.head_dim;
            const int64_t block = wanted ? table[position >> call.block_shift] : 0;
            const int in_block = position & ((1 << call.block_shift) - 1);
            const int64_t within =
                wanted ? int64_t{in_block} * call.head_dim + chunk * Stored::kPerChunk : 0;
            const int place = Stored::place(row, chunk);
            if constexpr (with_keys) {
                gpu::cp_async16(to_keys + place, keys + block * call.key_block_stride + within,
                                wanted ? 16 : 0);
            }
            if constexpr (with_values) {
                gpu::cp_async16(to_values + place,
                                values + block * call.value_block_stride + within, wanted ? 16 : 0);
            }
        }
        gpu::cp_async_commit();
    }
    __device__ __forceinline__ void load_scales(int first, float* to) const {
        if constexpr (kScaledByHead<C>) {
            cuda::load_scales(call, table, call.key_scales, call.key_scale_block_stride, first,
                              seen, to);
            cuda::load_scales(call, table, call.value_scales, call.value_scale_block_stride, first,
                              seen, to + kTile);
        }
    }
};

// The tiles of a block's positions on their way through shared memory. With two stages a tile
// is copied while the tile before is multiplied; with one, values are copied while keys are
// multiplied.
template <typename Source, typename C, int dim, bool share_rows, int stages>
struct TileCopies {
    static constexpr int kScales = kScaledByHead<C> ? 2 * kTile : 0;  // of a stage

    struct Memory {
        C* keys;        // [stages] tiles
        C* values;      // [stages] tiles
        float* scales;  // [stages][2][kTile] of keys and of values, where they have them
    };
    const Source& source;
    Memory shared;
    int end;  // of the positions

    static __device__ __forceinline__ int stage_of(int position) {
        return position / kTile % stages;
    }
    __device__ __forceinline__ const C* keys(int position) const {
        return shared.keys + stage_of(position) * kTile * dim;
    }
    __device__ __forceinline__ const C* values(int position) const {
        return shared.values + stage_of(position) * kTile * dim;
    }
    __device__ __forceinline__ const float* scales(int position) const {
        return shared.scales + stage_of(position) * kScales;
    }
    __device__ __forceinline__ bool is_last(int position) const { return position + kTile >= end; }

    __device__ __forceinline__ void start(int position) const {
        const int offset = stage_of(position) * kTile * dim;
        source.template start<true, true>(position, shared.keys + offset, shared.values + offset);
        source.load_scales(position, shared.scales + stage_of(position) * kScales);
    }
    __device__ __forceinline__ void start_first(int first) const {
        if (first >= end) return;
        if constexpr (stages == 2) {
            start(first);
        } else {
            source.template start<true, false>(first, shared.keys, nullptr);
        }
    }
    // Afterwards all threads may read the keys at `first`, and the next copies are in flight.
    __device__ __forceinline__ void await_keys(int first) const {
        if constexpr (stages == 2) {
            // All have left the tile before, whose memory the next one gets.
            gpu::cp_async_wait<0>();
            __syncthreads();
            if (!is_last(first)) start(first + kTile);
        } else {
            source.template start<false, true>(first, nullptr, shared.values);
            source.load_scales(first, shared.scales);
            gpu::cp_async_wait<1>();
            __syncthreads();
        }
    }
    // The keys at `first` are multiplied; the next ones may take their memory.
    __device__ __forceinline__ void release_keys(int first) const {
        if constexpr (share_rows || stages == 1) __syncthreads();
        if constexpr (stages == 1) {
            if (!is_last(first)) {
                source.template start<true, false>(first + kTile, shared.keys, nullptr);
                return;
            }
            gpu::cp_async_commit();  // so that the wait below means the values every time
        }
    }
    __device__ __forceinline__ void await_values() const {
        if constexpr (stages == 1) {
            gpu::cp_async_wait<1>();
            __syncthreads();
        }
    }
    __device__ __forceinline__ void release_values() const {
        if constexpr (stages == 1) __syncthreads();
    }
};

}  // namespace nvllm::cuda
