// The order of ops of latent attention.
#include "lib/model/layers/latent_attention.h"

#include "kernels/ops/elementwise.h"
#include "kernels/ops/kv_cache.h"

namespace nvllm {
namespace {

// A head's rows of [tokens, heads, size].
TensorView head_of(const TensorView& all, int64_t head) {
    TensorView rows = all;
    rows.rank = 2;
    rows.shape = {all.dim(0), all.dim(2)};
    rows.strides = {all.stride(0), all.stride(2)};
    rows.data =
        all.as<std::byte>() + static_cast<size_t>(head * all.stride(1)) * dtype_bytes(all.dtype);
    return rows;
}

size_t bytes_of(const std::vector<LinearWeight>& linears) {
    size_t bytes = 0;
    for (const LinearWeight& linear : linears) bytes += linear.bytes();
    return bytes;
}

}  // namespace

TensorView LatentAttention::make_queries(const Context& context,
                                         const TensorView& projected) const {
    if (!query_norm) return projected.columns(0, sizes.queries());
    const TensorView low = projected.columns(0, sizes.query_rank);
    query_norm->apply(context, low, low);
    const TensorView made = take_activations(context, {projected.dim(0), sizes.queries()});
    queries.apply(context, low, ops::MatmulOutput::overwrite, made);
    return made;
}

void LatentAttention::apply(const ForwardContext& batch, int32_t index, const CosSin* cos_sin,
                            const ConstTensorView& x, ops::MatmulOutput how,
                            const TensorView& y) const {
    const Context& context = *batch.context;
    const int64_t tokens = x.dim(0);
    const KvLayer& layer = batch.kv[static_cast<size_t>(index)];
    const GroupTables& tables = batch.groups[static_cast<size_t>(layer.group)];

    const TensorView projected = take_activations(context, {tokens, down.out()});
    down.apply(context, x, ops::MatmulOutput::overwrite, projected);
    const TensorView heads = make_queries(context, projected).split_last(sizes.heads);
    const TensorView cached = projected.columns(down.out() - sizes.cached(), sizes.cached());
    const TensorView latent = cached.columns(0, sizes.latent_dim);
    latent_norm.apply(context, latent, latent);
    const TensorView query_rope = heads.columns(sizes.plain_dim, sizes.rope_dim);
    if (cos_sin != nullptr) {
        const TensorView key_rope = cached.columns(sizes.latent_dim, sizes.rope_dim).split_last(1);
        ops::rope(context, cos_sin->cosines, cos_sin->sines, rope_pairs, query_rope);
        ops::rope(context, cos_sin->cosines, cos_sin->sines, rope_pairs, key_rope);
    }
    ops::PagedAttentionOptions over_layer = options;
    over_layer.value_dim = sizes.latent_dim;
    over_layer.scales = {1.0f, 1.0f, layer.key_scales, {}};
    over_layer.parents = batch.rows.parents;
    ops::write_kv(context, cached.split_last(1), {}, tables.slots, layer.keys, layer.values,
                  over_layer.scales);

    const TensorView absorbed = take_activations(context, {tokens, sizes.heads, sizes.cached()});
    ops::copy(context, query_rope, absorbed.columns(sizes.latent_dim, sizes.rope_dim));
    for (int64_t head = 0; head < sizes.heads; ++head) {
        keys[static_cast<size_t>(head)].apply(
            context, head_of(heads, head).columns(0, sizes.plain_dim), ops::MatmulOutput::overwrite,
            head_of(absorbed, head).columns(0, sizes.latent_dim));
    }
    const TensorView sums = take_activations(context, {tokens, sizes.heads, sizes.latent_dim});
    ops::paged_attention(context, absorbed, layer.keys, layer.values, batch.query_start_loc,
                         batch.seq_lens, tables.block_tables, over_layer, sums);
    const TensorView attended = take_activations(context, {tokens, sizes.heads, sizes.value_dim});
    for (int64_t head = 0; head < sizes.heads; ++head) {
        values[static_cast<size_t>(head)].apply(
            context, head_of(sums, head), ops::MatmulOutput::overwrite, head_of(attended, head));
    }
    output.apply(context, attended.reshaped({tokens, sizes.heads * sizes.value_dim}), how, y);
}

size_t LatentAttention::bytes() const {
    return down.bytes() + (query_norm ? query_norm->bytes() : 0) + queries.bytes() +
           latent_norm.bytes() + bytes_of(keys) + bytes_of(values) + output.bytes();
}

}  // namespace nvllm
