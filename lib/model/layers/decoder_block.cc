// The order of layers in a decoder block.
#include "lib/model/layers/decoder_block.h"

#include "kernels/ops/elementwise.h"

namespace nvllm {
namespace {

// hidden += after(layer(before(hidden))). Without a norm after it, a layer adds to the residual by
// itself.
template <typename Layer>
void apply_residual(const Context& context, const Norm& before, const std::optional<Norm>& after,
                    const TensorView& hidden, Layer&& layer) {
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView normed = take_activations(context, {hidden.dim(0), hidden.dim(1)});
    before.apply(context, hidden, normed);
    if (!after) {
        layer(normed, ops::MatmulOutput::accumulate, hidden);
        return;
    }
    const TensorView out = take_activations(context, {hidden.dim(0), hidden.dim(1)});
    layer(normed, ops::MatmulOutput::overwrite, out);
    after->apply(context, out, out);
    ops::add(context, out, hidden);
}

size_t mlp_bytes(const DecoderBlock& block) {
    return std::visit([](const auto& layer) { return layer.bytes(); }, block.mlp);
}

}  // namespace

void DecoderBlock::apply(const ForwardContext& batch, int32_t index, const CosSin* cos_sin,
                         const TensorView& hidden) const {
    const Context& context = *batch.context;
    apply_residual(context, attention_norm, after_attention_norm, hidden,
                   [&](const TensorView& x, ops::MatmulOutput how, const TensorView& y) {
                       if (linear_attention) {
                           linear_attention->apply(batch, index, x, how, y);
                       } else {
                           attention.apply(batch, index, cos_sin, x, how, y);
                       }
                   });
    apply_mlp(context, hidden);
}

void DecoderBlock::apply_mlp(const Context& context, const TensorView& hidden) const {
    apply_residual(context, mlp_norm, after_mlp_norm, hidden,
                   [&](const TensorView& x, ops::MatmulOutput how, const TensorView& y) {
                       std::visit([&](const auto& layer) { layer.apply(context, x, how, y); }, mlp);
                   });
}

bool DecoderBlock::is_capturable() const {
    const auto* const sparse = std::get_if<MoeMlp>(&mlp);
    return sparse == nullptr || sparse->stack.has_value();
}

size_t DecoderBlock::bytes() const {
    return attention_norm.bytes() + attention.bytes() + mlp_norm.bytes() + mlp_bytes(*this) +
           (after_attention_norm ? after_attention_norm->bytes() : 0) +
           (linear_attention ? linear_attention->bytes() : 0) +
           (after_mlp_norm ? after_mlp_norm->bytes() : 0);
}

}  // namespace nvllm
