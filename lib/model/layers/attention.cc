// The order of ops of an attention layer.
#include "lib/model/layers/attention.h"

#include "kernels/ops/activation.h"
#include "kernels/ops/attention_input.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/rope.h"
#include "lib/model/layers/copy_rows.h"
#include "lib/model/layers/scaled.h"

namespace nvllm {
namespace {

// Queries, keys and values side by side, out of a projection with each head's gate behind its
// query.
TensorView without_gates(const Context& context, const Attention& layer, const TensorView& x) {
    const int64_t width = layer.heads * layer.head_dim;
    const int64_t rest = 2 * layer.kv_heads * layer.head_dim;
    const TensorView out = take_activations(context, {x.dim(0), width + rest});
    ops::copy(context, x.columns(0, 2 * width).split_last(layer.heads).columns(0, layer.head_dim),
              out.columns(0, width).split_last(layer.heads));
    ops::copy(context, x.columns(2 * width, rest), out.columns(width, rest));
    return out;
}

}  // namespace

void Attention::apply(const ForwardContext& batch, int32_t index, const CosSin* cos_sin,
                      const ConstTensorView& x, ops::MatmulOutput how, const TensorView& y) const {
    const Context& context = *batch.context;
    const int64_t tokens = x.dim(0);
    const KvLayer& layer = batch.kv[static_cast<size_t>(kv_layer.value_or(index))];
    const GroupTables& tables = batch.groups[static_cast<size_t>(layer.group)];

    const TensorView projected = project(context, x);
    const TensorView inputs = inputs_of(context, projected);
    const TensorView queries = inputs.columns(0, heads * head_dim).split_last(heads);
    if (kv_layer) {
        prepare_queries(context, cos_sin, queries);
    } else {
        prepare(context, cos_sin, inputs, tables.slots, layer);
    }

    const TensorView attended = take_activations(context, {tokens, heads, head_dim});
    ops::PagedAttentionOptions over_layer = options;
    over_layer.scales = kv_scales(layer);
    over_layer.sinks = sinks.view();
    over_layer.position_bias = position_bias.view();
    over_layer.parents = batch.rows.parents;
    over_layer.tree_start_loc = batch.rows.tree_start_loc;
    ops::paged_attention(context, queries, layer.keys, layer.values, batch.query_start_loc,
                         batch.seq_lens, tables.block_tables, over_layer, attended);
    if (output_gate != OutputGate::none) {
        ops::gated_activation(context, ops::Activation::sigmoid, gates_of(projected), attended,
                              attended);
    }
    apply_scaled(context, output, out_scale, attended.reshaped({tokens, heads * head_dim}), how, y);
}

TensorView Attention::inputs_of(const Context& context, const TensorView& projected) const {
    switch (output_gate) {
        case OutputGate::none:
            break;
        case OutputGate::behind_queries:
            return without_gates(context, *this, projected);
        case OutputGate::behind_values:
            return projected.columns(0, projected.dim(1) - heads * head_dim);
    }
    return projected;
}

TensorView Attention::gates_of(const TensorView& projected) const {
    const int64_t width = heads * head_dim;
    if (output_gate == OutputGate::behind_values) {
        return projected.columns(projected.dim(1) - width, width).split_last(heads);
    }
    return projected.columns(0, 2 * width).split_last(heads).columns(head_dim, head_dim);
}

TensorView Attention::project(const Context& context, const ConstTensorView& x) const {
    const int64_t made = query_key_value.out();
    const int64_t of_keys = kv_heads * head_dim;
    const TensorView projected =
        take_activations(context, {x.dim(0), values_are_keys ? made + of_keys : made});
    query_key_value.apply(context, scaled(context, in_scale, x), ops::MatmulOutput::overwrite,
                          projected.columns(0, made));
    if (values_are_keys) {
        copy_rows(context, projected.columns(made - of_keys, of_keys),
                  projected.columns(made, of_keys));
    }
    return projected;
}

// Of heads that several ranks have, one copy counts.
void Attention::normalise_heads(const Context& context, const Norm& norm,
                                const TensorView& x) const {
    const int64_t tokens = x.dim(0);
    const int64_t width = x.dim(1);
    const int64_t whole = norm.weight.view().dim(0);
    if (whole == width) return norm.apply(context, x, x);
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView own = take_activations(context, {tokens, width});
    copy_rows(context, x, own);
    const TensorView of_ranks = take_activations(context, {tokens, shard.ranks * width});
    ops::gather_columns(context, own, of_ranks);
    const int64_t copies = shard.ranks * width / whole;
    const TensorView all = take_activations(context, {tokens, whole});
    for (int64_t first = 0; first < whole; first += width) {
        copy_rows(context, of_ranks.columns(first * copies, width), all.columns(first, width));
    }
    norm.apply(context, all, all);
    copy_rows(context, all.columns(shard.rank / copies * width, width), x);
}

void Attention::prepare_queries(const Context& context, const CosSin* cos_sin,
                                const TensorView& queries) const {
    if (query_norm) query_norm->apply(context, queries, queries);
    if (cos_sin == nullptr) return;
    ops::rope(context, cos_sin->cosines, cos_sin->sines, rope_pairs, queries);
}

ops::AttentionInputOptions Attention::prepare_apart(const Context& context, const CosSin* cos_sin,
                                                    const TensorView& projected) const {
    const TensorView queries = projected.columns(0, heads * head_dim);
    const TensorView keys = projected.columns(heads * head_dim, kv_heads * head_dim);
    ops::AttentionInputOptions input;
    input.pairs = rope_pairs;
    if (value_norm) {
        const TensorView values =
            projected.columns((heads + kv_heads) * head_dim, kv_heads * head_dim)
                .split_last(kv_heads);
        value_norm->apply(context, values, values);
    }
    if (query_norm && norm_place == QueryKeyNorm::projections) {
        normalise_heads(context, *query_norm, queries);
        normalise_heads(context, *key_norm, keys);
    } else if (query_norm) {
        input.query_norm = query_norm->weight.view();
        input.query_norm_options = {query_norm->epsilon, query_norm->weight_offset};
        input.key_norm = key_norm->weight.view();
        input.key_norm_options = {key_norm->epsilon, key_norm->weight_offset};
    }
    if (cos_sin == nullptr || cos_sin->cosines.rank == 0) return input;
    if (query_norm && norm_place == QueryKeyNorm::rotated_heads) {
        ops::rope(context, cos_sin->cosines, cos_sin->sines, rope_pairs, queries.split_last(heads));
        ops::rope(context, cos_sin->cosines, cos_sin->sines, rope_pairs, keys.split_last(kv_heads));
    } else {
        input.cosines = cos_sin->cosines;
        input.sines = cos_sin->sines;
    }
    return input;
}

void Attention::prepare(const Context& context, const CosSin* cos_sin, const TensorView& projected,
                        const ConstTensorView& slots, const KvLayer& layer) const {
    ops::AttentionInputOptions input = prepare_apart(context, cos_sin, projected);
    input.heads = heads;
    input.kv_heads = kv_heads;
    input.scales = kv_scales(layer);
    ops::attention_input(context, input, projected, slots, layer.keys, layer.values);
    if (cos_sin != nullptr && cos_sin->query_factors.data != nullptr) {
        ops::scale_rows(context, cos_sin->query_factors, projected.columns(0, heads * head_dim));
    }
}

size_t Attention::bytes() const {
    return query_key_value.bytes() + output.bytes() + sinks.bytes() +
           (query_norm ? query_norm->bytes() : 0) + (key_norm ? key_norm->bytes() : 0) +
           (value_norm ? value_norm->bytes() : 0);
}

}  // namespace nvllm
