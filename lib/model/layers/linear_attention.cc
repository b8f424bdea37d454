// The ops over states, and what is noted of them.
#include "lib/model/layers/linear_attention.h"

#include "lib/model/state_journal.h"

namespace nvllm {

void convolve(const ForwardContext& batch, int32_t index, const ConstTensorView& x,
              const ops::ConvWeights& weights, const TensorView& states, const TensorView& out) {
    const Context& context = *batch.context;
    const KvLayer& layer = batch.kv[static_cast<size_t>(index)];
    ops::causal_conv1d(context, x, weights, state_rows(batch, layer), states, out);
    if (batch.journal == nullptr) return;
    batch.journal->note_convolution(context, layer.group, x, weights, states);
}

void attend_states(const ForwardContext& batch, int32_t index,
                   const ops::LinearAttentionInput& input, const TensorView& states,
                   const TensorView& out) {
    const Context& context = *batch.context;
    const KvLayer& layer = batch.kv[static_cast<size_t>(index)];
    ops::linear_attention(context, input, state_rows(batch, layer), states, out);
    if (batch.journal == nullptr) return;
    batch.journal->note_attention(context, layer.group, input, states);
}

}  // namespace nvllm
