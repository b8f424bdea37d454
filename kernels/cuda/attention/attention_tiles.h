// What the attention kernels share: which queries a block takes, which positions they see, and how
// parts of the positions are folded together. For .cu files only.
//
// The rows of a sequence and a kv head are its queries' heads of that group, token by token, so
// that each key and value is read once for all of them. A row's arithmetic depends on its position
// and its context alone: positions are taken in tiles of kTile at absolute multiples, tiles join a
// running softmax within a split of kSplit positions, and splits are folded together in their
// order. Whether one block takes all splits of a row or each split has a block, and how many rows
// are in a block, changes no bits: what is invisible to a row leaves its state as it is, exactly.
#pragma once

#include "kernels/cuda/elements.h"
#include "kernels/ops/attention.h"

namespace nvllm::cuda {

constexpr int kTile = static_cast<int>(ops::kAttentionTile);
constexpr int kSplit = 256;  // positions; a multiple of kTile

// Below every score; finite, so that the difference of two of them is 0 and no NaN.
constexpr float kNoScore = -1e30f;

// Everything a block needs to know, as plain data.
struct AttentionCall {
    const void* queries;
    int64_t query_token_stride;
    int64_t query_head_stride;
    bool queries_aligned;
    const void* keys;
    const void* values;
    int64_t key_block_stride;
    int64_t value_block_stride;
    bool cache_aligned;
    float value_factor;  // of stored values; of float8 the layer's scale. That of keys is below
    const float* key_scales;  // of int8: one a position and head
    const float* value_scales;
    int64_t key_scale_block_stride;
    int64_t value_scale_block_stride;
    const int32_t* query_start_loc;
    const int32_t* seq_lens;
    const int32_t* block_tables;
    int64_t table_stride;
    int sequences;
    int tokens;
    int heads;
    int kv_heads;
    int head_dim;
    int value_dim;    // of values; head_dim unless keys are values too
    int block_shift;  // log2 of the block size
    int window;
    int chunk;
    bool causal;
    float soft_cap;    // 0: off
    float cap_factor;  // scale / soft_cap
    float
        score_factor;  // what a score is multiplied with for 2^x: scale or soft_cap, times log2(e)
    const float* sinks;          // [heads]; null: none
    const float* position_bias;  // [heads][2 * bias_reach + 1]; null: none
    int bias_reach;
    float bias_factor;       // 1 / scale: it joins raw products
    const int32_t* parents;  // [tokens]; null: no trees
    void* out;
    DType activation;  // of queries and out
    // Splits apart: [splits, tokens, heads, value_dim] and [splits, tokens, heads]. Null: one block
    // takes all splits of its rows.
    float* partial_values;
    float2* partial_weights;  // largest score, sum of weights

    __device__ __forceinline__ int group() const { return heads / kv_heads; }
};

struct Visible {
    int first;
    int end;
};

__device__ __forceinline__ Visible visible_positions(const AttentionCall& call, int position,
                                                     int context) {
    if (call.chunk > 0) return {position - position % call.chunk, position + 1};
    const int first = call.window > 0 ? position + 1 - call.window : 0;
    int end = call.causal ? position + 1 : context;
    if (!call.causal && call.window > 0 && position + call.window < end) {
        end = position + call.window;
    }
    return {first > 0 ? first : 0, end};
}

// Which of its step's rows a row of a tree sees, itself among them. Every row sees what was cached
// before the step.
struct Ancestors {
    int first;      // position of the step's first row
    uint64_t rows;  // bit by bit

    __device__ __forceinline__ bool sees(int position) const {
        return position < first || (rows >> (position - first) & 1) != 0;
    }
};

// The sequence whose queries `token` is among: the last that starts at or before it, of those with
// queries.
__device__ __forceinline__ int sequence_of_token(const AttentionCall& call, int token) {
    int low = 0;
    int high = call.sequences;  // low's sequence starts at or before the token, high's after it
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (call.query_start_loc[middle] <= token ? low : high) = middle;
    }
    return low;
}

// The rows of one block: `count` rows of one sequence from `first` on.
struct QueryTile {
    int sequence;
    int first;
    int count;  // 0: this block has nothing to do
    int first_token;
    int num_tokens;
    int context;

    __device__ __forceinline__ int token(int row, int group) const {
        return first_token + (first + row) / group;
    }
    __device__ __forceinline__ int position(int row, int group) const {
        return context - num_tokens + (first + row) / group;
    }
    __device__ __forceinline__ bool is_tree(const AttentionCall& call) const {
        return call.parents != nullptr && num_tokens <= static_cast<int>(ops::kMaxTreeRows);
    }
    // REQUIRES: is_tree().
    __device__ __forceinline__ Ancestors ancestors(const AttentionCall& call, int row) const {
        Ancestors seen{context - num_tokens, 0};
        int query = (first + row) / call.group();
        while (query >= 0) {
            seen.rows |= uint64_t{1} << query;
            const int parent = call.parents[first_token + query];
            query = parent < query ? parent : -1;
        }
        return seen;
    }
};

// Tiles of sequence s are numbered from starts[s] * group / rows + s on: at least as many numbers
// as it has tiles, without a look at the other sequences.
__device__ __forceinline__ QueryTile find_tile(const AttentionCall& call, int number, int rows) {
    const int group = call.group();
    const auto first_number = [&](int s) {
        return static_cast<int>(int64_t{call.query_start_loc[s]} * group / rows) + s;
    };
    int low = 0;
    int high = call.sequences;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (first_number(middle) <= number ? low : high) = middle;
    }
    QueryTile tile;
    tile.sequence = low;
    tile.first = (number - first_number(low)) * rows;
    tile.first_token = call.query_start_loc[low];
    tile.num_tokens = call.query_start_loc[low + 1] - tile.first_token;
    tile.context = call.seq_lens[low];
    const int left = tile.num_tokens * group - tile.first;
    tile.count = left < 0 || tile.first < 0 ? 0 : (left < rows ? left : rows);
    return tile;
}

inline int64_t num_tiles(int64_t tokens, int64_t sequences, int64_t group, int64_t rows) {
    return tokens * group / rows + sequences;
}

// Positions that any row of the tile sees; the first row sees the first, the last row the last.
__device__ __forceinline__ Visible visible_to_tile(const AttentionCall& call,
                                                   const QueryTile& tile) {
    const int group = call.group();
    const Visible first = visible_positions(call, tile.position(0, group), tile.context);
    const Visible last =
        visible_positions(call, tile.position(tile.count - 1, group), tile.context);
    return {first.first, last.end};
}

// Positions that all rows of the tile see.
__device__ __forceinline__ Visible visible_to_all_rows(const AttentionCall& call,
                                                       const QueryTile& tile) {
    const int group = call.group();
    const Visible first = visible_positions(call, tile.position(0, group), tile.context);
    const Visible last =
        visible_positions(call, tile.position(tile.count - 1, group), tile.context);
    return {last.first, tile.is_tree(call) ? tile.context - tile.num_tokens : first.end};
}

// The splits that a block takes of those positions.
__device__ __forceinline__ Visible splits_of_block(const AttentionCall& call,
                                                   const Visible& positions) {
    if (call.partial_values == nullptr) {
        return {positions.first / kSplit, (positions.end + kSplit - 1) / kSplit};
    }
    const int split = static_cast<int>(blockIdx.z);
    const bool seen = split * kSplit < positions.end && (split + 1) * kSplit > positions.first;
    return {split, seen ? split + 1 : split};
}

// Where position `position` of the sequence lies from the start of its block's kv head.
__device__ __forceinline__ int64_t cache_offset(const AttentionCall& call, const int32_t* table,
                                                int64_t block_stride, int position) {
    const int in_block = position & ((1 << call.block_shift) - 1);
    return int64_t{table[position >> call.block_shift]} * block_stride +
           int64_t{in_block} * call.head_dim;
}

// Copies scales of this block's kv head for the positions of a tile, by all threads; 1 for those
// that nothing in the block sees.
__device__ __forceinline__ void load_scales(const AttentionCall& call, const int32_t* table,
                                            const float* scales, int64_t block_stride, int first,
                                            const Visible& seen, float* shared) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile; i += static_cast<int>(blockDim.x)) {
        const int position = first + i;
        const int in_block = position & ((1 << call.block_shift) - 1);
        const bool wanted = position >= seen.first && position < seen.end;
        const int64_t head = int64_t{blockIdx.y} << call.block_shift;
        shared[i] = wanted ? scales[int64_t{table[position >> call.block_shift]} * block_stride +
                                    head + in_block]
                           : 1.0f;
    }
}

// What joins a raw product of a position that lies `distance` after the query's.
__device__ __forceinline__ float bias_of(const AttentionCall& call, int head, int distance) {
    const int reach = call.bias_reach;
    const int bounded = distance < -reach ? -reach : (distance > reach ? reach : distance);
    return call.position_bias[head * (2 * reach + 1) + reach + bounded] * call.bias_factor;
}

// A raw product q · k as the softmax wants it, before score_factor.
__device__ __forceinline__ float capped(const AttentionCall& call, float product) {
    return call.soft_cap > 0.0f ? tanhf(product * call.cap_factor) : product;
}

// How the state before and the part that joins are weighed.
struct Fold {
    float keep;
    float join;
};

// Joins the part (max, sum) to the state (total_max, total_sum).
__device__ __forceinline__ Fold fold_weights(float factor, float max, float sum, float& total_max,
                                             float& total_sum) {
    const float most = fmaxf(total_max, max);
    const Fold fold{gpu::fast_exp2((total_max - most) * factor),
                    gpu::fast_exp2((max - most) * factor)};
    total_max = most;
    total_sum = gpu::fma(total_sum, fold.keep, sum * fold.join);
    return fold;
}

__device__ __forceinline__ float fold_value(const Fold& fold, float total, float value) {
    return gpu::fma(total, fold.keep, value * fold.join);
}

// What the sum of weighted values of a head is multiplied with, from the largest raw product and
// the sum of weights. Rows that see nothing, which only fill up a batch, become 0.
__device__ __forceinline__ float output_factor(const AttentionCall& call, int head, float max,
                                               float sum) {
    if (!(sum > 0.0f)) return 0.0f;
    if (call.sinks == nullptr) return call.value_factor / sum;
    constexpr float kLog2OfE = 1.44269504f;
    const float sink = call.sinks[head] * kLog2OfE;
    const float score = max * call.score_factor;
    const float most = fmaxf(score, sink);
    const float kept = gpu::fast_exp2(score - most);
    return call.value_factor * kept / gpu::fma(sum, kept, gpu::fast_exp2(sink - most));
}

// out[index] = value in the activations' type.
__device__ __forceinline__ void store_activation(const AttentionCall& call, int64_t index,
                                                 float value) {
    if (call.activation == DType::f32) {
        static_cast<float*>(call.out)[index] = value;
    } else if (call.activation == DType::bf16) {
        static_cast<__nv_bfloat16*>(call.out)[index] = gpu::from_float<__nv_bfloat16>(value);
    } else {
        static_cast<__half*>(call.out)[index] = gpu::from_float<__half>(value);
    }
}

// Launches of attention_tensor_cores.cu, attention_byte_storage.cu and attention_exact.cu; `splits`
// blocks in z.
void attend_on_tensor_cores(const Context& context, const AttentionCall& call, uint32_t splits,
                            bool is_decode);
void attend_quantized_kv(const Context& context, const AttentionCall& call, DType cache_type,
                         uint32_t splits, bool is_decode);
void attend_simt(const Context& context, const AttentionCall& call, DType cache_type,
                 uint32_t splits);

}  // namespace nvllm::cuda
