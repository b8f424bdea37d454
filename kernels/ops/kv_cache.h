// Writing to and copying within paged key-value storage.
//
// One layer's storage is two tensors in the KV type (float32, bfloat16 or float16): keys [blocks,
// kv_heads, head_dim, block_size] and values [blocks, kv_heads, block_size, head_dim]. What
// attention reads of one head in one block lies together, and keys lie as it multiplies them:
// position beside position. Each block is contiguous; between blocks there may be anything, such
// as the same block of other layers. A slot is block * block_size + offset in the block. (Kwon et
// al. 2023, PagedAttention)
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// Stores row t of keys and values at slots[t].
// keys, values: float32 [tokens, kv_heads, head_dim], rows may be strided; slots: int64 [tokens].
void write_kv(const Context& context, const ConstTensorView& keys, const ConstTensorView& values,
              const ConstTensorView& slots, const TensorView& key_cache,
              const TensorView& value_cache);

// For each pair (from, to), in order: block `to` of the target becomes a copy of block `from` of
// the source, which may be the same storage. source, target: [blocks, ...], blocks alike; pairs:
// int32 [count, 2].
void copy_blocks(const Context& context, const ConstTensorView& pairs,
                 const ConstTensorView& source, const TensorView& target);

}  // namespace nvllm::ops
