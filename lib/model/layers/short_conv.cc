// The order of ops of a short convolution.
#include "lib/model/layers/short_conv.h"

#include "kernels/ops/activation.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {

void ShortConv::apply(const ForwardContext& batch, int32_t index, const ConstTensorView& x,
                      ops::MatmulOutput how, const TensorView& y) const {
    const Context& context = *batch.context;
    const int64_t tokens = x.dim(0);
    const KvLayer& layer = batch.kv[static_cast<size_t>(index)];
    const TensorView projected = take_activations(context, {tokens, in.out()});
    in.apply(context, x, ops::MatmulOutput::overwrite, projected);
    const TensorView values = projected.columns(2 * channels, channels);
    ops::gated_activation(context, ops::Activation::identity, projected.columns(0, channels),
                          values, values);

    const TensorView convolved = take_activations(context, {tokens, channels});
    convolve(batch, index, values, {conv_taps.view(), view_or_none(conv_bias)},
             part_of_states(layer, 0, {layer.state.dim(0), taps - 1, channels}), convolved);
    ops::gated_activation(context, ops::Activation::identity, projected.columns(channels, channels),
                          convolved, convolved);
    out.apply(context, convolved, how, y);
}

}  // namespace nvllm
