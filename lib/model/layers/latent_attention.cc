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

// Each head's rows of x by a matrix of its own.
void apply_by_head(const Context& context, const std::vector<LinearWeight>& linears,
                   const TensorView& x, const TensorView& y) {
    for (size_t head = 0; head < linears.size(); ++head) {
        const auto index = static_cast<int64_t>(head);
        linears[head].apply(context, head_of(x, index), ops::MatmulOutput::overwrite,
                            head_of(y, index));
    }
}

size_t bytes_of(const std::vector<LinearWeight>& linears) {
    size_t bytes = 0;
    for (const LinearWeight& linear : linears) bytes += linear.bytes();
    return bytes;
}

}  // namespace

TensorView LatentAttention::make_queries(const Context& context, const ConstTensorView& x) const {
    const int64_t tokens = x.dim(0);
    const TensorView made = take_activations(context, {tokens, queries.out()});
    if (!query_norm) {
        queries.apply(context, x, ops::MatmulOutput::overwrite, made);
    } else {
        const ScratchArena::Scope scope(*context.scratch);
        const TensorView low = take_activations(context, {tokens, query_rank.out()});
        query_rank.apply(context, x, ops::MatmulOutput::overwrite, low);
        query_norm->apply(context, low, low);
        queries.apply(context, low, ops::MatmulOutput::overwrite, made);
    }
    return made.split_last(heads);
}

TensorView LatentAttention::make_cached(const Context& context, const ConstTensorView& x) const {
    const TensorView made = take_activations(context, {x.dim(0), sizes.cached()});
    cached.apply(context, x, ops::MatmulOutput::overwrite, made);
    const TensorView latent = made.columns(0, sizes.latent_dim);
    latent_norm.apply(context, latent, latent);
    return made.split_last(1);
}

TensorView LatentAttention::absorb(const Context& context,
                                   const TensorView& heads_of_tokens) const {
    const TensorView made =
        take_activations(context, {heads_of_tokens.dim(0), heads, sizes.cached()});
    apply_by_head(context, keys, heads_of_tokens.columns(0, sizes.plain_dim),
                  made.columns(0, sizes.latent_dim));
    ops::copy(context, heads_of_tokens.columns(sizes.plain_dim, sizes.rope_dim),
              made.columns(sizes.latent_dim, sizes.rope_dim));
    return made;
}

void LatentAttention::apply(const ForwardContext& batch, int32_t index, const CosSin* cos_sin,
                            const ConstTensorView& x, ops::MatmulOutput how,
                            const TensorView& y) const {
    const Context& context = *batch.context;
    const int64_t tokens = x.dim(0);
    const KvLayer& layer = batch.kv[static_cast<size_t>(index)];
    const GroupTables& tables = batch.groups[static_cast<size_t>(layer.group)];

    const TensorView made_queries = make_queries(context, x);
    const TensorView made_cached = make_cached(context, x);
    if (cos_sin != nullptr) {
        const auto pairs = sizes.interleaved ? ops::RopePairs::interleaved : ops::RopePairs::halves;
        ops::rope(context, cos_sin->cosines, cos_sin->sines, pairs,
                  made_queries.columns(sizes.plain_dim, sizes.rope_dim));
        ops::rope(context, cos_sin->cosines, cos_sin->sines, pairs,
                  made_cached.columns(sizes.latent_dim, sizes.rope_dim));
    }
    ops::PagedAttentionOptions options;
    options.scale = scale;
    options.value_dim = sizes.latent_dim;
    options.scales = {1.0f, 1.0f, layer.key_scales, {}};
    options.parents = batch.rows.parents;
    options.tree_start_loc = batch.rows.tree_start_loc;
    ops::write_kv(context, made_cached, {}, tables.slots, layer.keys, layer.values, options.scales);

    const TensorView sums = take_activations(context, {tokens, heads, sizes.latent_dim});
    ops::paged_attention(context, absorb(context, made_queries), layer.keys, layer.values,
                         batch.query_start_loc, batch.seq_lens, tables.block_tables, options, sums);
    const TensorView attended = take_activations(context, {tokens, heads, sizes.value_dim});
    apply_by_head(context, values, sums, attended);
    output.apply(context, attended.reshaped({tokens, heads * sizes.value_dim}), how, y);
}

size_t LatentAttention::bytes() const {
    return query_rank.bytes() + (query_norm ? query_norm->bytes() : 0) + queries.bytes() +
           cached.bytes() + latent_norm.bytes() + bytes_of(keys) + bytes_of(values) +
           output.bytes();
}

}  // namespace nvllm
