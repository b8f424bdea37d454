// The order of ops of linear attention.
#include "lib/model/layers/gated_delta_net.h"

#include <cmath>

#include "kernels/ops/activation.h"
#include "kernels/ops/elementwise.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {
namespace {

// Added to the sum of squares of a query or key (transformers' l2norm).
constexpr float kEpsilon = 1e-6f;

// What the layer computes with, [tokens, width] each.
struct Projected {
    TensorView channels;    // queries, keys, values
    TensorView norm_gates;  // [tokens, values]
    TensorView update;      // [tokens, heads]
    TensorView decay;       // [tokens, heads], or [tokens, keys]
};

// Columns [first, first + width) of each of `parts` equal parts of a row: [tokens, parts, width].
TensorView of_each_part(const TensorView& x, int64_t parts, int64_t first, int64_t width) {
    return x.split_last(parts).columns(first, width);
}

Projected one_after_another(const LinearAttentionSizes& sizes, const TensorView& x) {
    int64_t first = 0;
    const auto next = [&](int64_t width) {
        const TensorView part = x.columns(first, width);
        first += width;
        return part;
    };
    Projected projected;
    const int64_t rank = sizes.gate_rank;
    projected.channels = next(sizes.channels());
    projected.norm_gates = next(rank > 0 ? rank : sizes.values());
    projected.update = next(sizes.heads);
    projected.decay = next(rank > 0 ? rank : sizes.heads);
    return projected;
}

// The same out of parts that lie by key head.
Projected gathered(const Context& context, const LinearAttentionSizes& sizes, const TensorView& x) {
    const int64_t tokens = x.dim(0);
    const int64_t parts = sizes.key_heads;
    const int64_t heads = sizes.heads / parts;  // of a key head
    const int64_t values = heads * sizes.value_dim;
    const int64_t wide = 2 * sizes.key_dim + 2 * values;
    const TensorView states = x.columns(0, parts * wide);
    const TensorView gates = x.columns(parts * wide, 2 * sizes.heads);
    const TensorView all = take_activations(context, {tokens, x.dim(1)});
    const Projected projected = one_after_another(sizes, all);
    const auto gather = [&](const TensorView& from, int64_t first, int64_t width,
                            const TensorView& to) {
        ops::copy(context, of_each_part(from, parts, first, width), to.split_last(parts));
    };
    const TensorView& channels = projected.channels;
    gather(states, 0, sizes.key_dim, channels.columns(0, sizes.keys()));
    gather(states, sizes.key_dim, sizes.key_dim, channels.columns(sizes.keys(), sizes.keys()));
    gather(states, 2 * sizes.key_dim, values, channels.columns(2 * sizes.keys(), sizes.values()));
    gather(states, 2 * sizes.key_dim + values, values, projected.norm_gates);
    gather(gates, 0, heads, projected.update);
    gather(gates, heads, heads, projected.decay);
    return projected;
}

TensorView multiplied(const Context& context, const LinearWeight& linear, const TensorView& x) {
    const TensorView y = take_activations(context, {x.dim(0), linear.out()});
    linear.apply(context, x, ops::MatmulOutput::overwrite, y);
    return y;
}

}  // namespace

void GatedDeltaNet::apply(const ForwardContext& batch, int32_t index, const ConstTensorView& x,
                          ops::MatmulOutput how, const TensorView& y) const {
    const Context& context = *batch.context;
    const int64_t tokens = x.dim(0);
    const LayerStates states(batch, index, sizes);

    const TensorView all = take_activations(context, {tokens, in.out()});
    in.apply(context, x, ops::MatmulOutput::overwrite, all);
    Projected projected =
        is_by_key_head ? gathered(context, sizes, all) : one_after_another(sizes, all);
    if (sizes.gate_rank > 0) {
        projected.norm_gates = multiplied(context, norm_gates, projected.norm_gates);
        projected.decay = multiplied(context, decays, projected.decay);
    }

    const TensorView convolved = take_activations(context, {tokens, sizes.channels()});
    convolve(batch, index, projected.channels, {conv_taps.view(), {}}, states.of_conv, convolved);
    ops::activation(context, activation, convolved, convolved);

    const TensorView queries = convolved.columns(0, sizes.keys()).split_last(sizes.key_heads);
    const TensorView keys =
        convolved.columns(sizes.keys(), sizes.keys()).split_last(sizes.key_heads);
    const TensorView values =
        convolved.columns(2 * sizes.keys(), sizes.values()).split_last(sizes.heads);
    const float scale = 1.0f / std::sqrt(static_cast<float>(sizes.key_dim));
    ops::l2_norm(context, queries, kEpsilon, scale, queries);
    ops::l2_norm(context, keys, kEpsilon, 1.0f, keys);
    const TensorView decay = take_values(context, DType::f32, {tokens, projected.decay.dim(1)});
    const TensorView update = take_values(context, DType::f32, {tokens, sizes.heads});
    ops::state_gates(context, projected.decay, projected.update, {a_log.view(), dt_bias.view()},
                     decay, update);

    const TensorView attended = take_activations(context, {tokens, sizes.heads, sizes.value_dim});
    const bool by_dimension = sizes.gate_rank > 0;
    attend_states(batch, index,
                  {queries,
                   keys,
                   values,
                   by_dimension ? decay.split_last(sizes.heads) : decay,
                   update,
                   true,
                   {}},
                  states.of_heads, attended);
    norm.apply(context, attended, attended);
    ops::gated_activation(context, gate, projected.norm_gates.split_last(sizes.heads), attended,
                          attended);
    out.apply(context, attended.reshaped({tokens, sizes.values()}), how, y);
}

size_t GatedDeltaNet::bytes() const {
    return in.bytes() + norm_gates.bytes() + decays.bytes() + conv_taps.bytes() + a_log.bytes() +
           dt_bias.bytes() + norm.bytes() + out.bytes();
}

}  // namespace nvllm
