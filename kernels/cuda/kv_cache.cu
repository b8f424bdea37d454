// Paged key-value storage on the GPU: keys and values alike lie [blocks, kv_heads, block_size,
// head_dim], or keys alone.
//
// write_kv: one block of up to 256 threads a token; each value is read and written once, 4 bytes
// per output of bfloat16. A slot outside the storage is passed over: rows that only fill up a
// batch have slot -1. Of int8 a warp has a head, whose scale it finds by shuffles. copy_blocks: a
// thread for each 16 bytes of a block, which takes the pairs in their order, because a block may be
// the target of one pair and the source of a later one; 2 bytes moved per byte. No shared memory.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/kv_store.h"

namespace nvllm::cuda {
namespace {

// Keys or values of a step.
template <typename T>
struct HeadRows {
    const T* data;
    int64_t token_stride;
    int64_t head_stride;
    bool aligned;
};

template <typename T, typename C>
__device__ __forceinline__ void write_run(const HeadRows<T>& rows, const KvSlotMapping<C>& target,
                                          int64_t token, const KvSlot& place, int head, int column,
                                          int head_dim) {
    float values[kRun] = {};
    if (column < head_dim) {
        load_run(rows.data + token * rows.token_stride + head * rows.head_stride + column,
                 head_dim - column, rows.aligned, values);
    }
    store_head(target, place, column, head_dim, values);
}

template <typename T, typename C>
__global__ void __launch_bounds__(kMaxThreads)
    write_kv_kernel(HeadRows<T> keys, HeadRows<T> values, KvSlotMapping<C> key_target,
                    KvSlotMapping<C> value_target, bool has_values,
                    const int64_t* __restrict__ slots, int64_t num_slots, int64_t block_size,
                    int kv_heads, int head_dim, int runs) {
    const int64_t token = blockIdx.x;
    const int64_t slot = slots[token];
    if (slot < 0 || slot >= num_slots) return;
    const int64_t block = slot / block_size;
    const int64_t offset = slot % block_size;
    for (int task = static_cast<int>(threadIdx.x); task < kv_heads * runs;
         task += static_cast<int>(blockDim.x)) {
        const int head = task / runs;
        const int column = task % runs * kRun;
        const KvSlot place{block, head * block_size + offset};
        write_run(keys, key_target, token, place, head, column, head_dim);
        if (has_values) write_run(values, value_target, token, place, head, column, head_dim);
    }
}

template <typename T>
HeadRows<T> head_rows(const ConstTensorView& rows) {
    return {rows.as<T>(), rows.stride(0), rows.stride(1), row_layout(rows).aligned};
}

template <typename Unit>
__global__ void __launch_bounds__(kMaxThreads)
    copy_blocks_kernel(const int32_t* __restrict__ pairs, int64_t count, const Unit* source,
                       int64_t source_blocks, Unit* target, int64_t target_blocks, int64_t units) {
    const int64_t unit = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (unit >= units) return;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t from = pairs[2 * i];
        const int64_t to = pairs[2 * i + 1];
        if (from < 0 || from >= source_blocks || to < 0 || to >= target_blocks) continue;
        target[to * units + unit] = source[from * units + unit];
    }
}

template <typename Unit>
void launch_copy(const Context& context, const ConstTensorView& pairs,
                 const ConstTensorView& source, const TensorView& target, int64_t block_bytes) {
    const int64_t units = block_bytes / static_cast<int64_t>(sizeof(Unit));
    const uint32_t threads = threads_for(units);
    gpu::launch(
        copy_blocks_kernel<Unit>,
        gpu::Launch{
            .grid = {blocks_for(units, threads)}, .block = {threads}, .stream = context.stream},
        pairs.as<int32_t>(), pairs.dim(0), source.as<Unit>(), source.dim(0), target.as<Unit>(),
        target.dim(0), units);
}

}  // namespace

void write_kv(const Context& context, const ConstTensorView& keys, const ConstTensorView& values,
              const ConstTensorView& slots, const TensorView& key_cache,
              const TensorView& value_cache, const ops::KvScales& scales) {
    const int64_t head_dim = keys.dim(2);
    const bool has_values = !ops::has_keys_alone(value_cache);
    if (slots.dim(0) == 0 || keys.dim(1) * head_dim == 0) return;
    with_float_type(keys.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        with_kv_type(key_cache.dtype, [&](auto stored) {
            using C = typename decltype(stored)::Type;
            NVLLM_CHECK(!kScaledByHead<C> || head_dim <= 32 * kRun,
                        "write_kv: heads of " + key_cache.describe());
            // A warp has one head where it looks at all of it.
            const int64_t runs = kScaledByHead<C> ? 32 : (head_dim + kRun - 1) / kRun;
            gpu::launch(write_kv_kernel<T, C>,
                        gpu::Launch{.grid = {static_cast<uint32_t>(slots.dim(0))},
                                    .block = {threads_for(keys.dim(1) * runs)},
                                    .stream = context.stream},
                        head_rows<T>(keys), has_values ? head_rows<T>(values) : HeadRows<T>{},
                        kv_target<C>(key_cache, scales.key, scales.keys),
                        has_values ? kv_target<C>(value_cache, scales.value, scales.values)
                                   : KvSlotMapping<C>{},
                        has_values, slots.as<int64_t>(), key_cache.dim(0) * key_cache.dim(2),
                        key_cache.dim(2), static_cast<int>(keys.dim(1)), static_cast<int>(head_dim),
                        static_cast<int>(runs));
        });
    });
}

void copy_blocks(const Context& context, const ConstTensorView& pairs,
                 const ConstTensorView& source, const TensorView& target) {
    const int64_t bytes = target.stride(0) * static_cast<int64_t>(dtype_bytes(target.dtype));
    if (pairs.dim(0) == 0 || bytes == 0) return;
    if (bytes % 16 == 0 && is_aligned(source.data) && is_aligned(target.data)) {
        launch_copy<uint4>(context, pairs, source, target, bytes);
    } else {
        launch_copy<uint8_t>(context, pairs, source, target, bytes);
    }
}

}  // namespace nvllm::cuda
