// Attention with bfloat16 or float16 queries on tensor cores (Dao et al. 2022, FlashAttention), for
// one query a sequence as for whole prompts. For .cu files only.
//
// Grid: [tiles of rows, kv_heads, splits or 1]; a block is four warps of 16 rows each, or four that
// share 16 rows where sequences have at most so many. Shared memory: the queries' tile, tiles of 64
// keys and of 64 values as they are stored, rows of 16-byte chunks XORed with the row so that
// ldmatrix meets no bank conflict; and where one block takes all splits, the sums of the splits
// before in float32. With two tiles of keys and of values the next ones are under way all the time;
// with one of each the next keys come while values are multiplied, and values while keys are. Each
// key and value is read once for all heads of its group and all rows of the block: in a decode step
// 2 * head_dim * the stored type's bytes a position and kv head.
//
// Products are exact and summed in float32; probabilities are rounded to the queries' type before
// they weigh values, and not rounded in the denominator.
#pragma once

#include "kernels/cuda/attention/attention_fragments.h"
#include "kernels/cuda/attention/attention_tile_copies.h"
#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/kv_store.h"
#include "kernels/cuda/matmul/matmul_selection.h"

namespace nvllm::cuda {

// share_rows: all warps have the same 16 rows. Each multiplies its part of a tile's keys; what
// comes of it they exchange, weigh all of it alike, and each multiplies its part of the values'
// columns. A value's accumulator of sums is as with one warp. stages: tiles of keys, and of values,
// that lie in shared memory, 1 or 2.
template <typename T, typename C, int dim, int warps, bool share_rows, int stages>
struct TensorAttention {
    static constexpr int kThreads = warps * 32;
    static constexpr int kRows = share_rows ? kRowsPerWarp : warps * kRowsPerWarp;
    static constexpr int kParts = share_rows ? warps : 1;
    static constexpr int kScales = kScaledByHead<C> ? 2 * kTile : 0;  // of a stage
    using Queries = QueryFragments<T, C, dim>;
    using Stored = StoredFragments<T, C, dim>;
    using Source = TileSource<Stored, C, dim, kThreads>;
    using Tiles = TileCopies<Source, C, dim, share_rows, stages>;
    static constexpr int kKeyTiles = kTile / 8;  // columns of scores, in eights
    static constexpr int kOwnKeyTiles = kKeyTiles / kParts;
    static constexpr int kColumnTiles = dim / 8 / kParts;
    static constexpr int kScoreStride = kTile + 8;  // rows of scores in different banks
    static constexpr int kScores = share_rows ? kRowsPerWarp * kScoreStride : 0;

    struct Shared {
        T* queries;
        C* keys;
        C* values;
        float* scores;  // [kRowsPerWarp][kScoreStride], where warps share rows
        float* scales;  // [stages][2][kTile] of keys and of values, where they have them
        float* sums;    // of splits before this one, [4 * kColumnTiles][threads]
    };

    // What one thread holds of its warp's 16 rows: rows lane / 4 and lane / 4 + 8.
    struct State {
        float values[kColumnTiles][4];
        float max[2];
        float sum[2];  // of this thread's columns

        __device__ __forceinline__ void clear() {
#pragma unroll
            for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
                for (int i = 0; i < 4; ++i) values[j][i] = 0.0f;
            }
            max[0] = max[1] = kNoScore;
            sum[0] = sum[1] = 0.0f;
        }
    };

    // Of the warp's rows in the block's tile, and of what it multiplies of a tile.
    static __device__ __forceinline__ int first_row() {
        return share_rows ? 0 : gpu::warp_id() * kRowsPerWarp;
    }
    static __device__ __forceinline__ int part() { return share_rows ? gpu::warp_id() : 0; }

    static __device__ __forceinline__ void load_queries(const AttentionCall& call,
                                                        const QueryTile& tile, T* shared) {
        const int group = call.group();
        const int first_head = static_cast<int>(blockIdx.y) * group;
        const T* const queries = static_cast<const T*>(call.queries);
        for (int i = static_cast<int>(threadIdx.x); i < kRows * (dim / kRun); i += kThreads) {
            const int row = i / (dim / kRun);
            const int chunk = i % (dim / kRun);
            float values[kRun] = {};
            if (row < tile.count && chunk * 8 < call.head_dim) {
                const int head = first_head + (tile.first + row) % group;
                load_run(queries + tile.token(row, group) * call.query_token_stride +
                             head * call.query_head_stride + chunk * 8,
                         kRun, call.queries_aligned, values);
            }
            Queries::store(shared, row, chunk, values);
        }
    }

    // What this thread has of the warp's scores meets that of the other warps; a barrier between.
    static __device__ __forceinline__ float2* score_pair(const Shared& shared, int tile, int half) {
        const int row = (gpu::lane_id() >> 2) + 8 * half;
        const int column = 8 * tile + 2 * (gpu::lane_id() & 3);
        return reinterpret_cast<float2*>(shared.scores + row * kScoreStride + column);
    }
    static __device__ __forceinline__ void share_scores(const Shared& shared,
                                                        const float (&own)[kOwnKeyTiles][4]) {
#pragma unroll
        for (int j = 0; j < kOwnKeyTiles; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                *score_pair(shared, part() * kOwnKeyTiles + j, half) =
                    make_float2(own[j][2 * half], own[j][2 * half + 1]);
            }
        }
    }
    static __device__ __forceinline__ void gather_scores(const Shared& shared,
                                                         float (&scores)[kKeyTiles][4]) {
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float2 pair = *score_pair(shared, j, half);
                scores[j][2 * half] = pair.x;
                scores[j][2 * half + 1] = pair.y;
            }
        }
    }

    // Scales of the positions of a thread's scores, `scales` of a tile.
    static __device__ __forceinline__ void scale(const float* scales,
                                                 float (&scores)[kKeyTiles][4]) {
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                scores[j][i] *= scales[8 * j + 2 * (gpu::lane_id() & 3) + (i & 1)];
            }
        }
    }

    // Caps the scores and hides what a row does not see.
    static __device__ __forceinline__ void mask(const AttentionCall& call, const QueryTile& tile,
                                                int first, float (&scores)[kKeyTiles][4]) {
        Visible seen[2];
        Ancestors ancestors[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row() + (gpu::lane_id() >> 2) + 8 * half;
            seen[half] = visible_positions(call, tile.position(row, call.group()), tile.context);
            ancestors[half] = {INT32_MAX, 0};
            if (row < tile.count && tile.is_tree(call)) {
                ancestors[half] = tile.ancestors(call, row);
            }
        }
        const int column = first + 2 * (gpu::lane_id() & 3);
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int position = column + 8 * j + (i & 1);
                const Visible& row = seen[i >> 1];
                const bool visible =
                    position >= row.first && position < row.end && ancestors[i >> 1].sees(position);
                scores[j][i] = visible ? capped(call, scores[j][i]) : -INFINITY;
            }
        }
    }

    // One step of the running softmax (Milakov & Gimelshein 2018): scores become weights.
    static __device__ __forceinline__ void weigh(float factor, float (&scores)[kKeyTiles][4],
                                                 State& state) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float most = state.max[half];
#pragma unroll
            for (int j = 0; j < kKeyTiles; ++j) {
                most = fmaxf(most, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
            }
            most = fmaxf(most, gpu::shuffle_xor(most, 1));
            most = fmaxf(most, gpu::shuffle_xor(most, 2));
            const float correction = gpu::fast_exp2((state.max[half] - most) * factor);
            state.max[half] = most;
            const float shift = -(most * factor);
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < kKeyTiles; ++j) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; ++i) {
                    scores[j][i] = gpu::fast_exp2(gpu::fma(scores[j][i], factor, shift));
                    sum += scores[j][i];
                }
            }
            state.sum[half] = gpu::fma(state.sum[half], correction, sum);
#pragma unroll
            for (int j = 0; j < kColumnTiles; ++j) {
                state.values[j][2 * half] *= correction;
                state.values[j][2 * half + 1] *= correction;
            }
        }
    }

    // All four threads of a row get the row's sum.
    static __device__ __forceinline__ void finish_sums(State& state) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            state.sum[half] += gpu::shuffle_xor(state.sum[half], 1);
            state.sum[half] += gpu::shuffle_xor(state.sum[half], 2);
        }
    }

    // The sums before this split join it: the state becomes the total.
    static __device__ __forceinline__ void join_sums_before(float factor, const Shared& shared,
                                                            float (&max)[2], float (&sum)[2],
                                                            State& state) {
        Fold fold[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            fold[half] =
                fold_weights(factor, state.max[half], state.sum[half], max[half], sum[half]);
            state.max[half] = max[half];
            state.sum[half] = sum[half];
        }
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float before = shared.sums[(4 * j + i) * kThreads + threadIdx.x];
                state.values[j][i] = fold_value(fold[i >> 1], before, state.values[j][i]);
            }
        }
    }

    static __device__ __forceinline__ void keep_sums(const Shared& shared, const State& state) {
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                shared.sums[(4 * j + i) * kThreads + threadIdx.x] = state.values[j][i];
            }
        }
    }

    static __device__ __forceinline__ void write(const AttentionCall& call, const QueryTile& tile,
                                                 const State& state) {
        const int lane = gpu::lane_id();
        const int group = call.group();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row() + (lane >> 2) + 8 * half;
            if (row >= tile.count) continue;
            const int head = static_cast<int>(blockIdx.y) * group + (tile.first + row) % group;
            const int64_t index = int64_t{tile.token(row, group)} * call.heads + head;
            const float factor = output_factor(call, head, state.max[half], state.sum[half]);
            T* const to = static_cast<T*>(call.out) + index * call.head_dim;
#pragma unroll
            for (int j = 0; j < kColumnTiles; ++j) {
                const int column = Stored::column(part() * kColumnTiles + j, lane);
                if (column >= call.head_dim) continue;
                const float2 pair = Stored::pair(state.values, j, half);
                gpu::store4(to + column, gpu::pack2<T>(pair.x * factor, pair.y * factor));
            }
        }
    }

    static __device__ __forceinline__ void write_partial(const AttentionCall& call,
                                                         const QueryTile& tile,
                                                         const State& state) {
        const int lane = gpu::lane_id();
        const int group = call.group();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row() + (lane >> 2) + 8 * half;
            if (row >= tile.count) continue;
            const int head = static_cast<int>(blockIdx.y) * group + (tile.first + row) % group;
            const int64_t index =
                (int64_t{blockIdx.z} * call.tokens + tile.token(row, group)) * call.heads + head;
            if ((lane & 3) == 0 && part() == 0) {
                call.partial_weights[index] = make_float2(state.max[half], state.sum[half]);
            }
            float* const to = call.partial_values + index * call.head_dim;
#pragma unroll
            for (int j = 0; j < kColumnTiles; ++j) {
                const int column = Stored::column(part() * kColumnTiles + j, lane);
                if (column >= call.head_dim) continue;
                *reinterpret_cast<float2*>(to + column) = Stored::pair(state.values, j, half);
            }
        }
    }

    static __device__ __forceinline__ Shared shared_memory(unsigned char* memory) {
        Shared shared;
        shared.queries = reinterpret_cast<T*>(memory);
        shared.keys = reinterpret_cast<C*>(shared.queries + kRows * dim);
        shared.values = shared.keys + stages * kTile * dim;
        shared.scores = reinterpret_cast<float*>(shared.values + stages * kTile * dim);
        shared.scales = shared.scores + kScores;
        shared.sums = shared.scales + stages * kScales;
        return shared;
    }

    static constexpr size_t shared_bytes(bool all_splits) {
        const size_t tiles = dim * (sizeof(T) * kRows + sizeof(C) * 2 * stages * kTile);
        return tiles + sizeof(float) * (kScores + stages * kScales) +
               (all_splits ? sizeof(float) * dim * kRows : 0);
    }

    // Queries times the keys at `first`, for this warp's rows.
    static __device__ __forceinline__ void score(const Shared& shared, const Tiles& tiles,
                                                 int first, float (&scores)[kKeyTiles][4]) {
        const C* const keys = tiles.keys(first);
        if constexpr (share_rows) {
            float own[kOwnKeyTiles][4];
            Stored::multiply_keys(shared.queries, 0, keys, part() * kOwnKeyTiles * 8, own);
            share_scores(shared, own);
        } else {
            Stored::multiply_keys(shared.queries, first_row(), keys, 0, scores);
        }
        tiles.release_keys(first);
        if constexpr (share_rows) gather_scores(shared, scores);
    }

    // The maximum and sum of this thread's rows over the splits before.
    struct SplitsBefore {
        float max[2] = {kNoScore, kNoScore};
        float sum[2] = {0.0f, 0.0f};
        bool exist = false;
    };

    // Merges the sums of a split with those of the splits before, and stores the result for the
    // next split, unless this is the last one.
    static __device__ __forceinline__ void end_split(const AttentionCall& call,
                                                     const Shared& shared, bool last,
                                                     SplitsBefore& before, State& state) {
        finish_sums(state);
        if (before.exist) {
            join_sums_before(call.score_factor, shared, before.max, before.sum, state);
        }
        if (last) return;
        before.exist = true;
        keep_sums(shared, state);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            before.max[half] = state.max[half];
            before.sum[half] = state.sum[half];
        }
        state.clear();
    }

    // All tiles from position `first` on.
    static __device__ __forceinline__ void attend(const AttentionCall& call, const QueryTile& tile,
                                                  const Shared& shared, const Tiles& tiles,
                                                  int first, State& state) {
        const bool apart = call.partial_values != nullptr;
        const Visible all_see = visible_to_all_rows(call, tile);
        SplitsBefore before;
        for (; first < tiles.end; first += kTile) {
            const bool last = tiles.is_last(first);
            const float* const scales = tiles.scales(first);
            float scores[kKeyTiles][4];
            tiles.await_keys(first);
            score(shared, tiles, first, scores);
            if constexpr (kScaledByHead<C>) scale(scales, scores);
            const bool all_visible = first >= all_see.first && first + kTile <= all_see.end;
            if (!all_visible || call.soft_cap > 0.0f) mask(call, tile, first, scores);
            weigh(call.score_factor, scores, state);
            if constexpr (kScaledByHead<C>) scale(scales + kTile, scores);
            tiles.await_values();
            const C* const values = tiles.values(first);
            Stored::multiply_values(values, part() * kColumnTiles, scores, state.values);
            tiles.release_values();
            const bool split_ends = (first + kTile) % kSplit == 0;
            if (!apart && (split_ends || last)) end_split(call, shared, last, before, state);
        }
    }

    static __device__ void run(const AttentionCall& call, unsigned char* memory) {
        // The longest prompts' last tiles see the most: they begin first.
        const auto number = static_cast<int>(gridDim.x - 1 - blockIdx.x);
        const QueryTile tile = find_tile(call, number, kRows);
        if (tile.count == 0) return;
        const Visible seen = visible_to_tile(call, tile);
        const Visible splits = splits_of_block(call, seen);
        const bool apart = call.partial_values != nullptr;
        if (apart && splits.first == splits.end) return;

        const Shared shared = shared_memory(memory);
        const int32_t* const table = call.block_tables + tile.sequence * call.table_stride;
        const int64_t head_offset = (int64_t{blockIdx.y} << call.block_shift) * call.head_dim;
        const Source source{call, table, static_cast<const C*>(call.keys) + head_offset,
                            static_cast<const C*>(call.values) + head_offset, seen};
        int first = splits.first * kSplit;
        if (first < seen.first) first = seen.first / kTile * kTile;
        int end = splits.end * kSplit;
        if (end > seen.end) end = seen.end;
        const Tiles tiles{source, {shared.keys, shared.values, shared.scales}, end};
        tiles.start_first(first);
        load_queries(call, tile, shared.queries);
        State state;
        state.clear();
        attend(call, tile, shared, tiles, first, state);
        if (apart) {
            finish_sums(state);
            write_partial(call, tile, state);
        } else {
            write(call, tile, state);
        }
    }
};

template <typename T, typename C, int dim, int warps, bool share_rows, int stages>
__global__ void __launch_bounds__(warps * 32, kAnyOccupancy)
    tensor_attention_kernel(AttentionCall call) {
    gpu::wait_for_work_before();
    GPU_DYNAMIC_SHARED(unsigned char, memory);
    TensorAttention<T, C, dim, warps, share_rows, stages>::run(call, memory);
}

template <typename T, typename C, int dim, int warps, bool share_rows, int stages>
void launch_tensor_attention(const Context& context, const AttentionCall& call, uint32_t splits) {
    using Attention = TensorAttention<T, C, dim, warps, share_rows, stages>;
    const int64_t tiles =
        num_tiles(call.tokens, call.sequences, call.heads / call.kv_heads, Attention::kRows);
    gpu::launch(tensor_attention_kernel<T, C, dim, warps, share_rows, stages>,
                gpu::Launch{.grid = {static_cast<uint32_t>(tiles),
                                     static_cast<uint32_t>(call.kv_heads), splits},
                            .block = {Attention::kThreads},
                            .shared_bytes = Attention::shared_bytes(call.partial_values == nullptr),
                            .stream = context.stream,
                            .overlaps = true},
                call);
}

// With two stages where they fit, and where no product of few rows comes next: that is put in place
// while splits apart are still computed, and what it has under way lies in the first-level cache,
// of which a multiprocessor that holds two tiles has little (an H100, the 8B shape behind 1,024
// positions: 143 tokens a second with two stages, 162 with one).
template <typename T, typename C, int dim, int warps, bool share_rows>
void launch_tensor_attention(const Context& context, const AttentionCall& call, uint32_t splits) {
    using Attention = TensorAttention<T, C, dim, warps, share_rows, 2>;
    const bool apart = call.partial_values != nullptr;
    const bool fits = Attention::shared_bytes(!apart) <= gpu::max_shared_bytes();
    if (fits && !(apart && call.tokens <= kMaxGemvRows)) {
        launch_tensor_attention<T, C, dim, warps, share_rows, 2>(context, call, splits);
    } else {
        launch_tensor_attention<T, C, dim, warps, share_rows, 1>(context, call, splits);
    }
}

template <typename T, typename C, int dim>
void launch_tensor_attention(const Context& context, const AttentionCall& call, uint32_t splits,
                             bool is_decode) {
    if (is_decode) {
        // Four warps wait for memory less than one; of storage in bytes a part of the values has
        // at least 32 columns.
        constexpr int kWarps = dim * sizeof(C) >= 128 ? 4 : 2;
        launch_tensor_attention<T, C, dim, kWarps, true>(context, call, splits);
    } else {
        launch_tensor_attention<T, C, dim, 4, false>(context, call, splits);
    }
}

// Over storage of C for the call's size of heads.
template <typename T, typename C>
void launch_tensor_attention(const Context& context, const AttentionCall& call, uint32_t splits,
                             bool is_decode) {
    if (call.head_dim <= 64) {
        launch_tensor_attention<T, C, 64>(context, call, splits, is_decode);
    } else if (call.head_dim <= 128) {
        launch_tensor_attention<T, C, 128>(context, call, splits, is_decode);
    } else {
        launch_tensor_attention<T, C, 256>(context, call, splits, is_decode);
    }
}

}  // namespace nvllm::cuda
