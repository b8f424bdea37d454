// The order of ops of Mamba-2.
#include "lib/model/layers/mamba2.h"

#include "kernels/ops/elementwise.h"
#include "lib/model/layers/scaled.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {

TensorView Mamba2::project(const Context& context, const ConstTensorView& x) const {
    const TensorView projected = take_activations(context, {x.dim(0), in.out()});
    in.apply(context, scaled(context, in_scale, x), ops::MatmulOutput::overwrite, projected);
    int64_t first = 0;
    const auto scale_next = [&](int64_t width, float factor) {
        if (factor != 1.0f) ops::scale(context, factor, projected.columns(first, width));
        first += width;
    };
    scale_next(sizes.values(), part_scales.gates);
    scale_next(sizes.values(), part_scales.values);
    scale_next(sizes.keys(), part_scales.keys);
    scale_next(sizes.keys(), part_scales.queries);
    scale_next(sizes.heads, part_scales.steps);
    return projected;
}

void Mamba2::normalise(const Context& context, const TensorView& result) const {
    const int64_t width = norms.empty() ? 0 : result.dim(1) / std::ssize(norms);
    for (size_t group = 0; group < norms.size(); ++group) {
        const TensorView part = result.columns(static_cast<int64_t>(group) * width, width);
        norms[group].apply(context, part, part);
    }
}

void Mamba2::apply(const ForwardContext& batch, int32_t index, const ConstTensorView& x,
                   ops::MatmulOutput how, const TensorView& y) const {
    const Context& context = *batch.context;
    const int64_t tokens = x.dim(0);
    const int64_t width = sizes.values();
    const LayerStates states(batch, index, sizes);

    const TensorView projected = project(context, x);
    const TensorView convolved = take_activations(context, {tokens, sizes.channels()});
    convolve(batch, index, projected.columns(width, sizes.channels()),
             {conv_taps.view(), view_or_none(conv_bias)}, states.of_conv, convolved);
    ops::activation(context, activation, convolved, convolved);

    const TensorView decay = take_values(context, DType::f32, {tokens, sizes.heads});
    const TensorView step = take_values(context, DType::f32, {tokens, sizes.heads});
    ops::state_gates(context, projected.columns(width + sizes.channels(), sizes.heads), {},
                     {a_log.view(), dt_bias.view(), least_step}, decay, step);

    const auto of_groups = [&](int64_t first) {
        return convolved.columns(first, sizes.keys()).split_last(sizes.key_heads);
    };
    const TensorView values = convolved.columns(0, width).split_last(sizes.heads);
    const TensorView attended = take_activations(context, {tokens, sizes.heads, sizes.value_dim});
    attend_states(batch, index,
                  {.queries = of_groups(width + sizes.keys()),
                   .keys = of_groups(width),
                   .values = values,
                   .decay = decay,
                   .update = step,
                   .is_delta = false,
                   .skip = skip.view()},
                  states.of_heads, attended);

    const TensorView result = attended.reshaped({tokens, width});
    if (norm_before_gate) normalise(context, result);
    ops::gated_activation(context, ops::Activation::silu, projected.columns(0, width), result,
                          result);
    if (!norm_before_gate) normalise(context, result);
    apply_scaled(context, out, out_scale, result, how, y);
}

size_t Mamba2::bytes() const {
    size_t total = in.bytes() + conv_taps.bytes() + conv_bias.bytes() + a_log.bytes() +
                   dt_bias.bytes() + skip.bytes() + out.bytes();
    for (const Norm& norm : norms) total += norm.bytes();
    return total;
}

}  // namespace nvllm
