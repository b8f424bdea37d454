// Paged attention on the GPU: which kernel, splits apart or together, and the merge of those apart.
//
// With bfloat16 or float16 in queries and the same or one byte a value in the cache the tensor
// cores multiply; all other types, scores with a bias of positions, and keys that are values too
// are computed in float32.
// Within each of the two a query has the same bits in a decode step, in a whole prompt and in a
// chunk of one, whatever else is in the batch (attention_tiles.h says why).
//
// merge_kernel: a warp a token and head, four in a block, no shared memory; 4 * value_dim + 8 bytes
// read per split and head, in the order of the splits.
#include "kernels/cuda/ops.h"

#include <algorithm>
#include <bit>

#include "kernels/cuda/attention/attention_tiles.h"

namespace nvllm::cuda {
namespace {

constexpr float kLog2OfE = 1.44269504f;
constexpr int kMaxDecodeRows = 16;    // rows of a sequence that one warp takes
constexpr int64_t kManyBlocks = 264;  // two a multiprocessor of the largest GPU
constexpr int64_t kMaxSplits = 512;
// 8,192 splits of a token's 32 heads of 128 values take 130 MiB: somewhat above a power of two, so
// that contexts of powers of two are split.
constexpr size_t kMaxScratchBytes = size_t{144} << 20;

template <int most_values>
__global__ void __launch_bounds__(128) merge_kernel(AttentionCall call) {
    gpu::wait_for_work_before();
    const int index = static_cast<int>(blockIdx.x) * 4 + gpu::warp_id();  // of token and head
    const int token = index / call.heads;
    if (token >= call.tokens) return;
    const int sequence = sequence_of_token(call, token);
    if (token >= call.query_start_loc[sequence + 1]) return;  // a row of no sequence
    const int context = call.seq_lens[sequence];
    const int position = context - (call.query_start_loc[sequence + 1] - token);
    const Visible seen = visible_positions(call, position, context);
    constexpr int kValues = most_values / 32;
    float totals[kValues] = {};
    float max = kNoScore;
    float sum = 0.0f;
#pragma unroll 4
    for (int split = seen.first / kSplit; split * kSplit < seen.end; ++split) {
        const int64_t part = int64_t{split} * call.tokens * call.heads + index;
        const float2 weights = call.partial_weights[part];
        const Fold fold = fold_weights(call.score_factor, weights.x, weights.y, max, sum);
        const float* const values = call.partial_values + part * call.value_dim;
#pragma unroll
        for (int i = 0; i < kValues; ++i) {
            const int column = gpu::lane_id() + 32 * i;
            if (column < call.value_dim) totals[i] = fold_value(fold, totals[i], values[column]);
        }
    }
    const float factor = output_factor(call, index % call.heads, max, sum);
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
        const int column = gpu::lane_id() + 32 * i;
        if (column < call.value_dim) {
            store_activation(call, int64_t{index} * call.value_dim + column, totals[i] * factor);
        }
    }
}

size_t bytes_of_splits(int64_t splits, int64_t tokens, int64_t heads, int64_t value_dim) {
    return static_cast<size_t>(splits * tokens * heads * (value_dim + 2)) * sizeof(float);
}

AttentionCall describe(const ConstTensorView& queries, const ConstTensorView& keys,
                       const ConstTensorView& values, const ConstTensorView& query_start_loc,
                       const ConstTensorView& seq_lens, const ConstTensorView& block_tables,
                       const ops::PagedAttentionOptions& options, const TensorView& out) {
    AttentionCall call{};
    call.queries = queries.data;
    call.query_token_stride = queries.stride(0);
    call.query_head_stride = queries.stride(1);
    call.queries_aligned = row_layout(queries).aligned;
    const ConstTensorView& weighed = options.value_dim > 0 ? keys : values;
    call.keys = keys.data;
    call.values = weighed.data;
    call.key_block_stride = keys.stride(0);
    call.value_block_stride = weighed.stride(0);
    call.cache_aligned = row_layout(keys).aligned && row_layout(weighed).aligned;
    call.query_start_loc = query_start_loc.as<int32_t>();
    call.seq_lens = seq_lens.as<int32_t>();
    call.block_tables = block_tables.as<int32_t>();
    call.table_stride = block_tables.stride(0);
    call.sequences = static_cast<int>(seq_lens.dim(0));
    call.tokens = static_cast<int>(queries.dim(0));
    call.heads = static_cast<int>(queries.dim(1));
    call.kv_heads = static_cast<int>(keys.dim(1));
    call.head_dim = static_cast<int>(queries.dim(2));
    call.value_dim = static_cast<int>(out.dim(2));
    call.block_shift = std::countr_zero(static_cast<uint64_t>(keys.dim(2)));
    call.window = static_cast<int>(options.window);
    call.chunk = static_cast<int>(options.chunk);
    call.causal = options.causal;
    call.soft_cap = options.soft_cap;
    const float scale =
        keys.dtype == DType::f8_e4m3 ? options.scale * options.scales.key : options.scale;
    call.value_factor = 1.0f;
    if (keys.dtype == DType::f8_e4m3) {
        call.value_factor = options.value_dim > 0 ? options.scales.key : options.scales.value;
    }
    if (keys.dtype == DType::i8) {
        const TensorView& of_values =
            options.value_dim > 0 ? options.scales.keys : options.scales.values;
        call.key_scales = options.scales.keys.as<float>();
        call.value_scales = of_values.as<float>();
        call.key_scale_block_stride = options.scales.keys.stride(0);
        call.value_scale_block_stride = of_values.stride(0);
    }
    call.cap_factor = options.soft_cap > 0 ? scale / options.soft_cap : 0.0f;
    call.score_factor = (options.soft_cap > 0 ? options.soft_cap : scale) * kLog2OfE;
    call.sinks = options.sinks.as<float>();
    if (options.position_bias.data != nullptr) {
        call.position_bias = options.position_bias.as<float>();
        call.bias_reach = static_cast<int>(options.position_bias.dim(1) / 2);
        call.bias_factor = 1.0f / scale;
    }
    call.parents = options.parents.as<int32_t>();
    call.out = out.data;
    call.activation = queries.dtype;
    return call;
}

// What splits of so many tokens take at most: with more splits they are not kept apart.
size_t most_bytes_of_splits(int64_t tokens, int64_t heads, int64_t value_dim) {
    return std::min(kMaxScratchBytes, bytes_of_splits(kMaxSplits, tokens, heads, value_dim));
}

// Splits apart where there are too few rows to fill the GPU otherwise, and scratch holds them.
bool wants_split_kv(const AttentionCall& call, int64_t splits, bool is_decode) {
    if (splits <= 1) return false;
    const int64_t group = call.heads / call.kv_heads;
    const int64_t blocks =
        num_tiles(call.tokens, call.sequences, group, is_decode ? 16 : 64) * call.kv_heads;
    if (!is_decode && blocks >= kManyBlocks) return false;
    return bytes_of_splits(splits, call.tokens, call.heads, call.value_dim) <=
           most_bytes_of_splits(call.tokens, call.heads, call.value_dim);
}

void merge(const Context& context, const AttentionCall& call) {
    const bool is_wide = call.value_dim > kMaxHeadDim;
    gpu::launch(is_wide ? merge_kernel<kMaxLatentValues> : merge_kernel<kMaxHeadDim>,
                gpu::Launch{.grid = {blocks_for(int64_t{call.tokens} * call.heads, 4)},
                            .block = {128},
                            .stream = context.stream,
                            .overlaps = true},
                call);
}

}  // namespace

void paged_attention(const Context& context, const ConstTensorView& queries,
                     const ConstTensorView& key_cache, const ConstTensorView& value_cache,
                     const ConstTensorView& query_start_loc, const ConstTensorView& seq_lens,
                     const ConstTensorView& block_tables, const ops::PagedAttentionOptions& options,
                     const TensorView& out) {
    if (queries.dim(0) == 0 || seq_lens.dim(0) == 0) return;
    const bool keys_alone = options.value_dim > 0;
    NVLLM_CHECK(keys_alone ? key_cache.dim(3) <= kMaxLatentDim && out.dim(2) <= kMaxLatentValues
                           : key_cache.dim(3) <= kMaxHeadDim,
                "paged_attention: keys " + key_cache.describe());
    NVLLM_CHECK(std::has_single_bit(static_cast<uint64_t>(key_cache.dim(2))),
                "paged_attention needs a power of two as block size: " + key_cache.describe());
    NVLLM_CHECK(
        keys_alone || key_cache.dtype == value_cache.dtype,
        "paged_attention: keys " + key_cache.describe() + ", values " + value_cache.describe());
    AttentionCall call = describe(queries, key_cache, value_cache, query_start_loc, seq_lens,
                                  block_tables, options, out);
    const bool of_bytes = dtype_bytes(key_cache.dtype) == 1;
    const bool tensor_cores = queries.dtype != DType::f32 && call.cache_aligned && !keys_alone &&
                              call.position_bias == nullptr &&
                              (of_bytes || queries.dtype == key_cache.dtype);
    const bool is_decode = int64_t{call.tokens} * (call.heads / call.kv_heads) <=
                           int64_t{call.sequences} * kMaxDecodeRows;
    const int64_t splits = blocks_for(block_tables.dim(1) * key_cache.dim(2), kSplit);
    const ScratchArena::Scope scope(*context.scratch);
    if (context.is_dry_run()) {  // whose sequences may get longer
        context.scratch->take(most_bytes_of_splits(call.tokens, call.heads, call.value_dim));
        return;
    }
    const bool apart = wants_split_kv(call, splits, is_decode);
    if (apart) {
        const auto parts = static_cast<size_t>(splits * call.tokens * call.heads);
        auto* const memory = static_cast<float*>(context.scratch->take(
            bytes_of_splits(splits, call.tokens, call.heads, call.value_dim)));
        call.partial_weights = reinterpret_cast<float2*>(memory);
        call.partial_values = memory + 2 * parts;
    }
    const uint32_t blocks_in_z = apart ? static_cast<uint32_t>(splits) : 1;
    if (tensor_cores && of_bytes) {
        attend_quantized_kv(context, call, key_cache.dtype, blocks_in_z, is_decode);
    } else if (tensor_cores) {
        attend_on_tensor_cores(context, call, blocks_in_z, is_decode);
    } else {
        attend_simt(context, call, key_cache.dtype, blocks_in_z);
    }
    if (apart) merge(context, call);
}

}  // namespace nvllm::cuda
