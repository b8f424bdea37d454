// The order of layers in an encoder block.
#include "lib/model/layers/encoder_block.h"

namespace nvllm {

// Layers have read all of `hidden` before they add to it.
void EncoderBlock::apply(const ForwardContext& batch, int32_t index,
                         const TensorView& hidden) const {
    const Context& context = *batch.context;
    {
        const ScratchArena::Scope scope(*context.scratch);
        attention.apply(batch, index, nullptr, hidden, ops::MatmulOutput::accumulate, hidden);
    }
    attention_norm.apply(context, hidden, hidden);
    const ScratchArena::Scope scope(*context.scratch);
    mlp.apply(context, hidden, ops::MatmulOutput::accumulate, hidden);
    mlp_norm.apply(context, hidden, hidden);
}

size_t EncoderBlock::bytes() const {
    return attention.bytes() + attention_norm.bytes() + mlp.bytes() + mlp_norm.bytes();
}

}  // namespace nvllm
