// The way from projection to attention on the GPU in one pass: norms, rotation, storage.
//
// Grid: [tokens, parts of a token's heads], blocks of four warps; a warp takes a head at a time, a
// lane eight of its values. Of few tokens each warp has one head, as heads one after the other
// would be all that the GPU waits for. Shared memory: one head of at most 256 float32 values a
// warp, through which a value meets the one it is rotated with. Queries are read and written once,
// keys and values read once and written to their slots: 4 bytes per output of bfloat16. Between the
// steps values are rounded to their type, so that the bits are those of the separate ops.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/kv_store.h"
#include "kernels/cuda/norm_row.h"

namespace nvllm::cuda {
namespace {

constexpr int kWarps = 4;
static_assert(kMaxHeadDim == 32 * kRun);
constexpr int64_t kFewTokens = 256;

template <typename W>
struct HeadNorm {
    Scale<W> scale;  // weight null: no norm
    float epsilon;
};

struct HeadCosSin {
    Rows<const float> cosines;  // data null: no rotation
    Rows<const float> sines;
    bool interleaved;  // neighbours turn together
};

template <typename C>
struct Storage {
    KvSlotMapping<C> keys;
    KvSlotMapping<C> values;
    int64_t num_slots;
    int block_size;
};

template <typename T>
__device__ __forceinline__ void round_values(float (&values)[kRun]) {
#pragma unroll
    for (int i = 0; i < kRun; ++i) values[i] = gpu::to_float(gpu::from_float<T>(values[i]));
}

// Of lanes beyond the head all values are 0.
template <typename T, typename W>
__device__ __forceinline__ void normalise(const HeadNorm<W>& norm, int column, int head_dim,
                                          float (&values)[kRun]) {
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kRun; ++i) squares = gpu::fma(values[i], values[i], squares);
    const float factor = inverse_root(gpu::warp_sum(squares), head_dim, norm.epsilon);
    if (column < head_dim) norm.scale.apply(column, head_dim - column, 0.0f, factor, values);
    round_values<T>(values);
}

// What turns this lane's values of every head of a token.
struct LaneCosSin {
    float cosines[kRun];
    float sines[kRun];
    int half;  // of what is rotated; 0: nothing is
    bool interleaved;
    bool in_runs;  // no run has values on both sides of `half`, or of its double

    __device__ __forceinline__ void load(const HeadCosSin& cos_sin, int64_t token, int column) {
        half = cos_sin.cosines.data != nullptr ? static_cast<int>(cos_sin.cosines.layout.width) : 0;
        interleaved = cos_sin.interleaved;
        in_runs = half % kRun == 0 && !interleaved;
        if (in_runs && column < 2 * half) {
            const int pair = column < half ? column : column - half;
            cos_sin.cosines.load(token, pair, kRun, cosines);
            cos_sin.sines.load(token, pair, kRun, sines);
            return;
        }
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            const int d = column + i;
            if (d >= 2 * half) continue;
            const int pair = interleaved ? d / 2 : d < half ? d : d - half;
            cosines[i] = cos_sin.cosines.row(token)[pair];
            sines[i] = cos_sin.sines.row(token)[pair];
        }
    }
};

// Rotates this lane's values with their partners of the same head; `head` is the warp's memory.
template <typename T>
__device__ __forceinline__ void rotate(const LaneCosSin& cos_sin, int column, float* head,
                                       float (&values)[kRun]) {
    const int half = cos_sin.half;
    store_run(head + column, kRun, true, values);
    gpu::sync_warp();
    if (cos_sin.in_runs && column < 2 * half) {
        const bool first = column < half;
        float others[kRun];
        load_run(head + (first ? column + half : column - half), kRun, true, others);
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            const float other = others[i] * cos_sin.sines[i];
            values[i] = gpu::fma(values[i], cos_sin.cosines[i], first ? -other : other);
        }
    } else {
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            const int d = column + i;
            if (d >= 2 * half) continue;
            const bool first = cos_sin.interleaved ? d % 2 == 0 : d < half;
            const int distance = cos_sin.interleaved ? 1 : half;
            const float other = head[first ? d + distance : d - distance] * cos_sin.sines[i];
            values[i] = gpu::fma(values[i], cos_sin.cosines[i], first ? -other : other);
        }
    }
    gpu::sync_warp();
    round_values<T>(values);
}

// By all lanes of the warp that has the head.
template <typename C>
__device__ __forceinline__ void store_in_cache(const Storage<C>& storage, bool is_value,
                                               const KvSlot& place, int column, int head_dim,
                                               float (&values)[kRun]) {
    if (!kScaledByHead<C> && column >= head_dim) return;
    if (is_value) {
        store_head(storage.values, place, column, head_dim, values);
    } else {
        store_head(storage.keys, place, column, head_dim, values);
    }
}

template <typename T, typename W, typename C>
__global__ void __launch_bounds__(kWarps * 32, kAnyOccupancy)
    attention_input_kernel(Rows<T> projected, HeadNorm<W> query_norm, HeadNorm<W> key_norm,
                           HeadCosSin cos_sin, const int64_t* __restrict__ slots,
                           Storage<C> storage, int heads, int kv_heads, int head_dim) {
    gpu::wait_for_work_before();
    GPU_SHARED(float, rows, [kWarps][kMaxHeadDim]);
    const int64_t token = blockIdx.x;
    T* const row = projected.row(token);
    const bool aligned = projected.layout.aligned && head_dim % kRun == 0;
    const int column = gpu::lane_id() * kRun;
    const int64_t slot = slots[token];
    const bool has_slot = slot >= 0 && slot < storage.num_slots;
    const int64_t block = slot / storage.block_size;
    const int64_t offset = slot % storage.block_size;
    const int first_head = static_cast<int>(blockIdx.y) * kWarps + gpu::warp_id();
    const int warps_of_token = static_cast<int>(gridDim.y) * kWarps;
    LaneCosSin lane_cos_sin;
    lane_cos_sin.load(cos_sin, token, column);
    for (int head = first_head; head < heads + 2 * kv_heads; head += warps_of_token) {
        const bool is_query = head < heads;
        const bool is_value = head >= heads + kv_heads;
        const bool exists = column < head_dim;
        T* const from = row + int64_t{head} * head_dim + column;
        float values[kRun] = {};
        if (exists) load_run(from, head_dim - column, aligned, values);
        if (!is_value) {
            const HeadNorm<W>& norm = is_query ? query_norm : key_norm;
            if (norm.scale.weight != nullptr) normalise<T>(norm, column, head_dim, values);
            if (lane_cos_sin.half > 0) {
                rotate<T>(lane_cos_sin, column, rows[gpu::warp_id()], values);
            }
        }
        if (is_query) {
            if (exists) store_run(from, head_dim - column, aligned, values);
        } else if (has_slot) {
            const int kv_head = head - heads - (is_value ? kv_heads : 0);
            const KvSlot place{block, int64_t{kv_head} * storage.block_size + offset};
            store_in_cache(storage, is_value, place, column, head_dim, values);
        }
    }
}

template <typename W>
HeadNorm<W> head_norm(const ConstTensorView& weight, const ops::RmsNormOptions& options) {
    return {scale_of<W>(weight, {}, options.weight_offset), options.epsilon};
}

Rows<const float> angle_rows(const ConstTensorView& cos_sin) {
    if (cos_sin.data == nullptr) return {nullptr, {}};
    return rows_of<float>(cos_sin);
}

template <typename C>
Storage<C> storage_of(const TensorView& keys, const TensorView& values,
                      const ops::KvScales& scales) {
    return {kv_target<C>(keys, scales.key, scales.keys),
            kv_target<C>(values, scales.value, scales.values), values.dim(0) * values.dim(2),
            static_cast<int>(values.dim(2))};
}

}  // namespace

void attention_input(const Context& context, const ops::AttentionInputOptions& options,
                     const TensorView& projected, const ConstTensorView& slots,
                     const TensorView& key_cache, const TensorView& value_cache) {
    const int64_t head_dim = value_cache.dim(3);
    NVLLM_CHECK(head_dim <= kMaxHeadDim, "attention_input: heads of " + value_cache.describe());
    const int64_t tokens = projected.dim(0);
    if (tokens == 0) return;
    const uint32_t parts =
        tokens <= kFewTokens ? blocks_for(options.heads + 2 * options.kv_heads, kWarps) : 1;
    const DType weights =
        options.query_norm.data != nullptr ? options.query_norm.dtype : options.key_norm.dtype;
    with_float_type(projected.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        with_float_type(weights, [&](auto norm) {
            using W = typename decltype(norm)::Type;
            with_kv_type(key_cache.dtype, [&](auto stored) {
                using C = typename decltype(stored)::Type;
                gpu::launch(attention_input_kernel<T, W, C>,
                            gpu::Launch{.grid = {tokens, parts},
                                        .block = {kWarps * 32},
                                        .stream = context.stream,
                                        .overlaps = true},
                            rows_of<T>(projected),
                            head_norm<W>(options.query_norm, options.query_norm_options),
                            head_norm<W>(options.key_norm, options.key_norm_options),
                            HeadCosSin{angle_rows(options.cosines), angle_rows(options.sines),
                                       options.pairs == ops::RopePairs::interleaved},
                            slots.as<int64_t>(),
                            storage_of<C>(key_cache, value_cache, options.scales),
                            static_cast<int>(options.heads), static_cast<int>(options.kv_heads),
                            static_cast<int>(head_dim));
            });
        });
    });
}

}  // namespace nvllm::cuda
