// Writing to and copying within paged key-value storage.
//
// One layer's storage is two tensors in the KV type (float32, bfloat16, float16, float8_e4m3 or
// int8, the last two with scales): keys [blocks,
// kv_heads, head_dim, block_size] and values [blocks, kv_heads, block_size, head_dim]. What
// attention reads of one head in one block lies together, and keys lie as it multiplies them:
// position beside position. Each block is contiguous; between blocks there may be anything, such
// as the same block of other layers. A slot is block * block_size + offset in the block. (Kwon et
// al. 2023, PagedAttention)
//
// On a device keys lie as values do: [blocks, kv_heads, block_size, head_dim].
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// Whether keys lie as values do, or position beside position.
inline bool keys_lie_as_values(Device device) { return device.kind != DeviceKind::cpu; }

// Which axis of key storage is which.
struct KeyAxes {
    int head_dim = 2;
    int position = 3;
};
inline KeyAxes key_axes(Device device) {
    return keys_lie_as_values(device) ? KeyAxes{3, 2} : KeyAxes{2, 3};
}

inline bool is_kv_type(DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 ||
           dtype == DType::f8_e4m3 || dtype == DType::i8;
}

// What stored keys and values are multiplied with; float types of 16 bits and more take none.
//
// float8_e4m3: one factor for all keys of a layer and one for all values, which a checkpoint
// brings; x * (1 / factor) is stored. int8: one for each position and head, made when it is
// written: max |x| / 127 over the head (0 for what is all but 0, NaN where a value is no number),
// so that nothing has to be known of the model, and what one position stores never depends on
// another.
struct KvScales {
    float key = 1.0f;
    float value = 1.0f;
    TensorView keys;  // float32 [blocks, kv_heads, block_size], blocks contiguous; int8 alone
    TensorView values;
};

// Bytes that one head of one position takes, keys or values, with its scale where it has one.
inline int64_t kv_head_bytes(DType dtype, int64_t head_dim) {
    const auto values = head_dim * static_cast<int64_t>(dtype_bytes(dtype));
    return dtype == DType::i8 ? values + static_cast<int64_t>(sizeof(float)) : values;
}

// Whether a layer stores keys alone: its values are the first dimensions of keys (latent attention,
// DeepSeek-V2, DeepSeek-AI 2024). Its view of values has no axes.
inline bool has_keys_alone(const ViewLayout& value_cache) { return value_cache.rank == 0; }

// Stores row t of keys and values at slots[t]; where value_cache has no axes, keys alone.
// keys, values: activations of one type [tokens, kv_heads, head_dim], rows may be strided; slots:
// int64 [tokens].
void write_kv(const Context& context, const ConstTensorView& keys, const ConstTensorView& values,
              const ConstTensorView& slots, const TensorView& key_cache,
              const TensorView& value_cache, const KvScales& scales = {});

// For each pair (from, to), in order: block `to` of the target becomes a copy of block `from` of
// the source, which may be the same storage. source, target: [blocks, ...], blocks alike; pairs:
// int32 [count, 2]. A block may be the target of one pair and the source of a later one.
void copy_blocks(const Context& context, const ConstTensorView& pairs,
                 const ConstTensorView& source, const TensorView& target);

// For each pair (from, to), in order: slot `to` gets the key of slot `from` and its value where it
// is stored, all heads and scales. pairs: int64 [count, 2]; storage as write_kv() has it. On the
// CPU alone.
void move_slots(const Context& context, const ConstTensorView& pairs, const TensorView& key_cache,
                const TensorView& value_cache, const KvScales& scales = {});

}  // namespace nvllm::ops
