// Attention in float32 throughout: for float32 queries or caches, and for mixed types.
//
// Grid: [tiles of 16 rows, kv_heads, splits or 1], blocks of 128 threads. Shared memory: 16
// queries, 64 keys or values in float32 (one after the other in the same place), 64 x 16 weights.
// Wide heads, whose keys are values too (latent attention), come part by part to that place.
// Rows are padded by 16 bytes, so that threads that read 16 bytes of neighbouring rows meet in no
// bank. Each key and value is read once for all heads of its group.
//
// A score is the sum over head_dim in ascending order, values join the output in ascending order of
// positions, both by fused multiply-add; the weights of a tile are added as a balanced tree.
// Queries and weights are not rounded: nothing but the exponential differs from the CPU's
// arithmetic.
#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/kv_store.h"
#include "kernels/cuda/ops.h"

namespace nvllm::cuda {
namespace {

constexpr int kRows = 16;
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kRowsPerWarp = kRows / kWarps;
constexpr int kWeightPitch = kRows + 4;  // of the weights of one position

// Of heads whose keys have up to `key_parts` * `dim` values, and values up to `value_parts` *
// `dim`.
template <typename C, int dim, int key_parts = 1, int value_parts = 1>
struct SimtAttention {
    static constexpr int kQueryPitch = key_parts * dim + 4;
    static constexpr int kPitch = dim + 4;
    static constexpr int kColumns =
        dim < kThreads ? dim : kThreads;                      // that threads stand side by side
    static constexpr int kColumnsPerThread = dim / kColumns;  // of a part
    static constexpr int kRowGroups = kThreads / kColumns;
    static constexpr int kRowsPerThread = kRows / kRowGroups;
    static constexpr int kScoreRows = kRows * kTile / kThreads;  // rows of one key per thread

    struct Shared {
        float* queries;  // [kRows][kQueryPitch]
        float* cached;   // [kTile][kPitch]
        float* weights;  // [kTile][kWeightPitch]
        float* keep;     // [kRows]: what sums so far are multiplied with
        float* join;     // [kRows]: what the split is multiplied with
        float* totals;   // [kRows]
        float* scales;   // [2][kTile] of keys and of values, where they have them
    };

    static constexpr size_t kSharedBytes =
        sizeof(float) * (kRows * kQueryPitch + kTile * kPitch + kTile * kWeightPitch +
                         3 * static_cast<size_t>(kRows) + (kScaledByHead<C> ? 2 * kTile : 0));

    static __device__ __forceinline__ Shared shared_memory(unsigned char* memory) {
        Shared shared;
        shared.queries = reinterpret_cast<float*>(memory);
        shared.cached = shared.queries + kRows * kQueryPitch;
        shared.weights = shared.cached + kTile * kPitch;
        shared.keep = shared.weights + kTile * kWeightPitch;
        shared.join = shared.keep + kRows;
        shared.totals = shared.join + kRows;
        shared.scales = shared.totals + kRows;
        return shared;
    }

    template <typename T>
    static __device__ __forceinline__ void load_query(const AttentionCall& call, int64_t offset,
                                                      int count, float (&values)[kRun]) {
        load_run(static_cast<const T*>(call.queries) + offset, count, call.queries_aligned, values);
    }

    static __device__ __forceinline__ void load_queries(const AttentionCall& call,
                                                        const QueryTile& tile, float* shared) {
        const int group = call.group();
        const int first_head = static_cast<int>(blockIdx.y) * group;
        constexpr int kRuns = key_parts * dim / kRun;
        for (int i = static_cast<int>(threadIdx.x); i < kRows * kRuns; i += kThreads) {
            const int row = i / kRuns;
            const int column = i % kRuns * kRun;
            const int count = call.head_dim - column;
            float values[kRun] = {};
            if (row < tile.count && count > 0) {
                const int head = first_head + (tile.first + row) % group;
                const int64_t offset = tile.token(row, group) * call.query_token_stride +
                                       head * call.query_head_stride + column;
                if (call.activation == DType::f32) {
                    load_query<float>(call, offset, count, values);
                } else if (call.activation == DType::bf16) {
                    load_query<__nv_bfloat16>(call, offset, count, values);
                } else {
                    load_query<__half>(call, offset, count, values);
                }
            }
            store_run(shared + row * kQueryPitch + column, kRun, true, values);
        }
    }

    // A part of 64 positions from `first` on; those that nothing in the block sees become 0.
    static __device__ __forceinline__ void load_cached(const AttentionCall& call,
                                                       const int32_t* table, const C* cache,
                                                       int64_t block_stride, int first,
                                                       const Visible& seen, int part,
                                                       float* shared) {
        for (int i = static_cast<int>(threadIdx.x); i < kTile * (dim / kRun); i += kThreads) {
            const int row = i / (dim / kRun);
            const int column = i % (dim / kRun) * kRun;
            const int position = first + row;
            const int of_head = part * dim + column;
            const int count = call.head_dim - of_head;
            float values[kRun] = {};
            if (position >= seen.first && position < seen.end && count > 0) {
                load_run(cache + cache_offset(call, table, block_stride, position) + of_head, count,
                         call.cache_aligned, values);
            }
            store_run(shared + row * kPitch + column, kRun, true, values);
        }
    }

    // Scores of one position for kScoreRows rows.
    using Scores = float[kScoreRows];

    static __device__ __forceinline__ int key_of_thread() {
        return static_cast<int>(threadIdx.x) % kTile;
    }
    static __device__ __forceinline__ int first_score_row() {
        return static_cast<int>(threadIdx.x) / kTile * kScoreRows;
    }

    // What a part of the keys adds to them.
    static __device__ __forceinline__ void multiply_keys(const Shared& shared, int part,
                                                         Scores& scores) {
        const int key = key_of_thread();
        const int first_row = first_score_row();
        for (int column = 0; column < dim; column += 4) {
            float values[4];
            load_packed(shared.cached + key * kPitch + column, values);
#pragma unroll
            for (int r = 0; r < kScoreRows; ++r) {
                float query[4];
                load_packed(shared.queries + (first_row + r) * kQueryPitch + part * dim + column,
                            query);
#pragma unroll
                for (int i = 0; i < 4; ++i) scores[r] = gpu::fma(query[i], values[i], scores[r]);
            }
        }
    }

    static __device__ __forceinline__ void store_scores(const AttentionCall& call,
                                                        const QueryTile& tile, int first,
                                                        const Shared& shared, Scores& scores) {
        const int key = key_of_thread();
        const int first_row = first_score_row();
#pragma unroll
        for (int r = 0; r < kScoreRows; ++r) {
            if constexpr (kScaledByHead<C>) scores[r] *= shared.scales[key];
            if (call.position_bias != nullptr && first_row + r < tile.count) {
                const int group = call.group();
                const int row = first_row + r;
                const int head = static_cast<int>(blockIdx.y) * group + (tile.first + row) % group;
                scores[r] += bias_of(call, head, first + key - tile.position(row, group));
            }
            shared.weights[key * kWeightPitch + first_row + r] = capped(call, scores[r]);
        }
    }

    // The running maximum and sum of a warp's rows, the same in all its lanes.
    struct Softmax {
        float max[kRowsPerWarp];
        float sum[kRowsPerWarp];

        __device__ __forceinline__ void clear() {
#pragma unroll
            for (int r = 0; r < kRowsPerWarp; ++r) {
                max[r] = kNoScore;
                sum[r] = 0.0f;
            }
        }
    };

    // One step of the running softmax: scores become weights.
    static __device__ __forceinline__ void weigh(const AttentionCall& call, const QueryTile& tile,
                                                 int first, const Shared& shared,
                                                 Softmax& softmax) {
        const int lane = gpu::lane_id();
#pragma unroll
        for (int r = 0; r < kRowsPerWarp; ++r) {
            const int row = gpu::warp_id() * kRowsPerWarp + r;
            Visible seen{0, 0};
            if (row < tile.count) {
                seen = visible_positions(call, tile.position(row, call.group()), tile.context);
            }
            Ancestors ancestors{INT32_MAX, 0};
            if (row < tile.count && tile.is_tree(call)) ancestors = tile.ancestors(call, row);
            float scores[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int position = first + lane + 32 * i;
                const bool visible =
                    position >= seen.first && position < seen.end && ancestors.sees(position);
                scores[i] =
                    visible ? shared.weights[(lane + 32 * i) * kWeightPitch + row] : -INFINITY;
            }
            const float most = fmaxf(softmax.max[r], gpu::warp_max(fmaxf(scores[0], scores[1])));
            const float correction = gpu::fast_exp2((softmax.max[r] - most) * call.score_factor);
            const float shift = -(most * call.score_factor);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                scores[i] = gpu::fast_exp2(gpu::fma(scores[i], call.score_factor, shift));
                float weight = scores[i];
                if constexpr (kScaledByHead<C>) weight *= shared.scales[kTile + lane + 32 * i];
                shared.weights[(lane + 32 * i) * kWeightPitch + row] = weight;
            }
            softmax.max[r] = most;
            softmax.sum[r] =
                gpu::fma(softmax.sum[r], correction, gpu::warp_sum(scores[0] + scores[1]));
            if (lane == 0) shared.keep[row] = correction;
        }
    }

    using PartSums = float[kColumnsPerThread][kRowsPerThread];
    using Sums = PartSums[value_parts];

    static __device__ __forceinline__ int first_row_of_thread() {
        return static_cast<int>(threadIdx.x) / kColumns * kRowsPerThread;
    }
    static __device__ __forceinline__ int column_of_thread(int index) {
        return static_cast<int>(threadIdx.x) % kColumns + index * kColumns;
    }

    // Of the values' part that is there.
    static __device__ __forceinline__ void multiply_values(const Shared& shared, PartSums& sums) {
        const int first_row = first_row_of_thread();
#pragma unroll
        for (int r = 0; r < kRowsPerThread; ++r) {
#pragma unroll
            for (int c = 0; c < kColumnsPerThread; ++c) sums[c][r] *= shared.keep[first_row + r];
        }
        for (int position = 0; position < kTile; ++position) {
            float values[kColumnsPerThread];
#pragma unroll
            for (int c = 0; c < kColumnsPerThread; ++c) {
                values[c] = shared.cached[position * kPitch + column_of_thread(c)];
            }
            const float* const weights = shared.weights + position * kWeightPitch + first_row;
#pragma unroll
            for (int r = 0; r < kRowsPerThread; r += 4) {
                float weight[4];
                load_packed(weights + r, weight);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
#pragma unroll
                    for (int c = 0; c < kColumnsPerThread; ++c) {
                        sums[c][r + i] = gpu::fma(weight[i], values[c], sums[c][r + i]);
                    }
                }
            }
        }
    }

    // visit(part, column of the thread, row of the thread)
    template <typename Visit>
    static __device__ __forceinline__ void for_each_sum(const Visit& visit) {
#pragma unroll
        for (int p = 0; p < value_parts; ++p) {
#pragma unroll
            for (int c = 0; c < kColumnsPerThread; ++c) {
#pragma unroll
                for (int r = 0; r < kRowsPerThread; ++r) visit(p, c, r);
            }
        }
    }

    static __device__ __forceinline__ void clear(Sums& sums) {
        for_each_sum([&](int p, int c, int r) { sums[p][c][r] = 0.0f; });
    }

    // The split joins the totals, and the next begins. Those who read `keep` before have met a
    // barrier since, and those who write it next will.
    static __device__ __forceinline__ void merge_split(const AttentionCall& call,
                                                       const Shared& shared, Softmax& softmax,
                                                       Softmax& total, Sums& sums, Sums& totals) {
#pragma unroll
        for (int r = 0; r < kRowsPerWarp; ++r) {
            const Fold fold = fold_weights(call.score_factor, softmax.max[r], softmax.sum[r],
                                           total.max[r], total.sum[r]);
            if (gpu::lane_id() == 0) {
                shared.keep[gpu::warp_id() * kRowsPerWarp + r] = fold.keep;
                shared.join[gpu::warp_id() * kRowsPerWarp + r] = fold.join;
            }
        }
        __syncthreads();
        const int first_row = first_row_of_thread();
        for_each_sum([&](int p, int c, int r) {
            const Fold fold{shared.keep[first_row + r], shared.join[first_row + r]};
            totals[p][c][r] = fold_value(fold, totals[p][c][r], sums[p][c][r]);
        });
        softmax.clear();
        clear(sums);
    }

    static __device__ __forceinline__ void write(const AttentionCall& call, const QueryTile& tile,
                                                 const Shared& shared, const Softmax& total,
                                                 const Sums& totals) {
        if (gpu::lane_id() == 0) {
#pragma unroll
            for (int r = 0; r < kRowsPerWarp; ++r) {
                const int row = gpu::warp_id() * kRowsPerWarp + r;
                const int group = call.group();
                const int head = static_cast<int>(blockIdx.y) * group + (tile.first + row) % group;
                shared.totals[row] = output_factor(call, head, total.max[r], total.sum[r]);
            }
        }
        __syncthreads();
        const int group = call.group();
        for_each_sum([&](int p, int c, int r) {
            const int row = first_row_of_thread() + r;
            const int column = p * dim + column_of_thread(c);
            if (row >= tile.count || column >= call.value_dim) return;
            const int head = static_cast<int>(blockIdx.y) * group + (tile.first + row) % group;
            const int64_t index = int64_t{tile.token(row, group)} * call.heads + head;
            store_activation(call, index * call.value_dim + column,
                             totals[p][c][r] * shared.totals[row]);
        });
    }

    static __device__ __forceinline__ void write_partial(const AttentionCall& call,
                                                         const QueryTile& tile,
                                                         const Softmax& softmax, const Sums& sums) {
        const int group = call.group();
        const int first_head = static_cast<int>(blockIdx.y) * group;
        const auto index_of = [&](int row) {
            return (int64_t{blockIdx.z} * call.tokens + tile.token(row, group)) * call.heads +
                   first_head + (tile.first + row) % group;
        };
#pragma unroll
        for (int r = 0; r < kRowsPerWarp; ++r) {
            const int row = gpu::warp_id() * kRowsPerWarp + r;
            if (gpu::lane_id() == 0 && row < tile.count) {
                call.partial_weights[index_of(row)] = make_float2(softmax.max[r], softmax.sum[r]);
            }
        }
        for_each_sum([&](int p, int c, int r) {
            const int row = first_row_of_thread() + r;
            const int column = p * dim + column_of_thread(c);
            if (row >= tile.count || column >= call.value_dim) return;
            call.partial_values[index_of(row) * call.value_dim + column] = sums[p][c][r];
        });
    }

    static __device__ void run(const AttentionCall& call, unsigned char* memory) {
        const QueryTile tile = find_tile(call, static_cast<int>(gridDim.x - 1 - blockIdx.x), kRows);
        if (tile.count == 0) return;
        const Visible seen = visible_to_tile(call, tile);
        const Visible splits = splits_of_block(call, seen);
        const bool apart = call.partial_values != nullptr;
        if (apart && splits.first == splits.end) return;

        const Shared shared = shared_memory(memory);
        const int32_t* const table = call.block_tables + tile.sequence * call.table_stride;
        const int64_t head_offset = (int64_t{blockIdx.y} << call.block_shift) * call.head_dim;
        const C* const keys = static_cast<const C*>(call.keys) + head_offset;
        const C* const values = static_cast<const C*>(call.values) + head_offset;
        load_queries(call, tile, shared.queries);
        Softmax softmax, total;
        Sums sums, totals;
        softmax.clear();
        total.clear();
        clear(sums);
        clear(totals);
        int first = splits.first * kSplit;
        if (first < seen.first) first = seen.first / kTile * kTile;
        int end = splits.end * kSplit;
        if (end > seen.end) end = seen.end;
        for (; first < end; first += kTile) {
            if constexpr (kScaledByHead<C>) {
                load_scales(call, table, call.key_scales, call.key_scale_block_stride, first, seen,
                            shared.scales);
                load_scales(call, table, call.value_scales, call.value_scale_block_stride, first,
                            seen, shared.scales + kTile);
            }
            Scores scores = {};
#pragma unroll
            for (int part = 0; part < key_parts; ++part) {
                if (part > 0) __syncthreads();
                load_cached(call, table, keys, call.key_block_stride, first, seen, part,
                            shared.cached);
                __syncthreads();
                multiply_keys(shared, part, scores);
            }
            store_scores(call, tile, first, shared, scores);
            __syncthreads();
#pragma unroll
            for (int part = 0; part < value_parts; ++part) {
                load_cached(call, table, values, call.value_block_stride, first, seen, part,
                            shared.cached);
                if (part == 0) weigh(call, tile, first, shared, softmax);
                __syncthreads();
                multiply_values(shared, sums[part]);
                __syncthreads();
            }
            const bool split_ends = (first + kTile) % kSplit == 0 || first + kTile >= end;
            if (!apart && split_ends) merge_split(call, shared, softmax, total, sums, totals);
        }
        if (apart) {
            write_partial(call, tile, softmax, sums);
        } else {
            write(call, tile, shared, total, totals);
        }
    }
};

template <typename C, int dim, int key_parts, int value_parts>
__global__ void __launch_bounds__(kThreads, kAnyOccupancy) attention_kernel(AttentionCall call) {
    GPU_DYNAMIC_SHARED(unsigned char, memory);
    SimtAttention<C, dim, key_parts, value_parts>::run(call, memory);
}

template <typename C, int dim, int key_parts = 1, int value_parts = 1>
void launch_attention(const Context& context, const AttentionCall& call, uint32_t splits) {
    const int64_t tiles = num_tiles(call.tokens, call.sequences, call.heads / call.kv_heads, kRows);
    gpu::launch(
        attention_kernel<C, dim, key_parts, value_parts>,
        gpu::Launch{
            .grid = {static_cast<uint32_t>(tiles), static_cast<uint32_t>(call.kv_heads), splits},
            .block = {kThreads},
            .shared_bytes = SimtAttention<C, dim, key_parts, value_parts>::kSharedBytes,
            .stream = context.stream},
        call);
}

}  // namespace

void attend_simt(const Context& context, const AttentionCall& call, DType cache_type,
                 uint32_t splits) {
    with_kv_type(cache_type, [&](auto stored) {
        using C = typename decltype(stored)::Type;
        if (call.value_dim < call.head_dim || call.head_dim > kMaxHeadDim) {
            constexpr int kPart = 128;
            launch_attention<C, kPart, kMaxLatentDim / kPart, kMaxLatentValues / kPart>(
                context, call, splits);
        } else if (call.head_dim <= 64) {
            launch_attention<C, 64>(context, call, splits);
        } else if (call.head_dim <= 128) {
            launch_attention<C, 128>(context, call, splits);
        } else {
            launch_attention<C, 256>(context, call, splits);
        }
    });
}

}  // namespace nvllm::cuda
