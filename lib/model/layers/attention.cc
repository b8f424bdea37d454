// The order of ops of an attention layer.
#include "lib/model/layers/attention.h"

#include <algorithm>

#include "kernels/ops/kv_cache.h"

namespace nvllm {

void Attention::apply(const ForwardContext& batch, int32_t index, const RotaryAngles* angles,
                      const ConstTensorView& x, ops::MatmulOutput how, const TensorView& y) const {
    const Context& context = *batch.kernels;
    const int64_t tokens = x.dim(0);
    const KvLayer& layer = batch.kv[static_cast<size_t>(index)];
    const GroupTables& tables = batch.groups[static_cast<size_t>(layer.group)];

    const TensorView projected = take_activations(context, {tokens, query_key_value.out()});
    query_key_value.apply(context, x, ops::MatmulOutput::overwrite, projected);
    const int64_t kv_width = kv_heads * head_dim;
    const TensorView queries = projected.columns(0, heads * head_dim).split_last(heads);
    const TensorView keys = projected.columns(heads * head_dim, kv_width).split_last(kv_heads);
    const TensorView values =
        projected.columns(heads * head_dim + kv_width, kv_width).split_last(kv_heads);

    if (query_norm) query_norm->apply(context, queries, queries);
    if (key_norm) key_norm->apply(context, keys, keys);
    if (angles != nullptr) {
        angles->rotate(context, queries);
        angles->rotate(context, keys);
    }
    ops::write_kv(context, keys, values, tables.slots, layer.keys, layer.values);

    const TensorView attended = take_activations(context, {tokens, heads, head_dim});
    ops::paged_attention(context, queries, layer.keys, layer.values, batch.query_starts,
                         batch.context_lengths, tables.block_tables, options, attended);
    output.apply(context, attended.reshaped({tokens, heads * head_dim}), how, y);
}

size_t Attention::scratch_bytes(int64_t tokens, int num_threads) const {
    const size_t inside_ops =
        std::max({query_key_value.scratch_bytes(tokens, num_threads),
                  output.scratch_bytes(tokens, num_threads),
                  ops::paged_attention_scratch_bytes(tokens, heads, head_dim, num_threads)});
    return scratch_for_activations(tokens * query_key_value.out()) +
           scratch_for_activations(tokens * heads * head_dim) + scratch_for_bytes(inside_ops);
}

size_t Attention::bytes() const {
    return query_key_value.bytes() + output.bytes() + (query_norm ? query_norm->bytes() : 0) +
           (key_norm ? key_norm->bytes() : 0);
}

}  // namespace nvllm
