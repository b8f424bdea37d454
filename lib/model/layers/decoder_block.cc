// The order of layers in a decoder block.
#include "lib/model/layers/decoder_block.h"

#include "kernels/ops/elementwise.h"

namespace nvllm {
namespace {

// What stands around a layer.
struct Around {
    const std::optional<Norm>& before;
    const std::optional<Norm>& after;
    float scale;
};

// hidden += scale * after(layer(before(hidden))). Where nothing comes between, a layer adds to the
// residual by itself.
template <typename Layer>
void apply_residual(const Context& context, const Around& around, const TensorView& hidden,
                    Layer&& layer) {
    const ScratchArena::Scope scope(*context.scratch);
    ConstTensorView x = hidden;
    if (around.before) {
        const TensorView normed = take_activations(context, {hidden.dim(0), hidden.dim(1)});
        around.before->apply(context, hidden, normed);
        x = normed;
    }
    if (around.before && !around.after && around.scale == 1.0f) {
        layer(x, ops::MatmulOutput::accumulate, hidden);
        return;
    }
    const TensorView out = take_activations(context, {hidden.dim(0), hidden.dim(1)});
    layer(x, ops::MatmulOutput::overwrite, out);
    if (around.after) around.after->apply(context, out, out);
    if (around.scale != 1.0f) ops::scale(context, around.scale, out);
    ops::add(context, out, hidden);
}

size_t mlp_bytes(const DecoderBlock& block) {
    return std::visit([](const auto& layer) { return layer.bytes(); }, block.mlp);
}

size_t state_layer_bytes(const DecoderBlock& block) {
    if (!block.state_layer) return 0;
    return std::visit([](const auto& layer) { return layer.bytes(); }, *block.state_layer);
}

size_t experts_bytes(const DecoderBlock& block) {
    if (!block.experts_beside) return 0;
    const ExpertsBeside& beside = *block.experts_beside;
    return beside.after_mlp.bytes() + beside.experts.bytes() + beside.after.bytes();
}

// `y`: what the MLP gave; then the sum of both.
void add_experts(const Context& context, const ExpertsBeside& beside, const TensorView& hidden,
                 const TensorView& y) {
    beside.after_mlp.apply(context, y, y);
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView out = take_activations(context, {y.dim(0), y.dim(1)});
    beside.experts.apply(context, hidden, ops::MatmulOutput::overwrite, out);
    beside.after.apply(context, out, out);
    ops::add(context, out, y);
}

size_t norm_bytes(const std::optional<Norm>& norm) { return norm ? norm->bytes() : 0; }

}  // namespace

void DecoderBlock::attend(const ForwardContext& batch, int32_t index, const CosSin* cos_sin,
                          const ConstTensorView& x, ops::MatmulOutput how,
                          const TensorView& y) const {
    if (state_layer) {
        const ScratchArena::Scope scope(*batch.context->scratch);
        const int32_t state = state_index.value_or(index);
        std::visit([&](const auto& layer) { layer.apply(batch, state, x, how, y); }, *state_layer);
        if (!state_index) return;
        how = ops::MatmulOutput::accumulate;
    }
    if (latent_attention) {
        latent_attention->apply(batch, index, cos_sin, x, how, y);
    } else {
        attention.apply(batch, index, cos_sin, x, how, y);
    }
}

void DecoderBlock::apply(const ForwardContext& batch, int32_t index, const CosSin* cos_sin,
                         const TensorView& hidden) const {
    const Context& context = *batch.context;
    if (!has_attention) return apply_mlp(context, hidden);
    const Around around{attention_norm, after_attention_norm, residual_scale};
    apply_residual(context, around, hidden,
                   [&](const ConstTensorView& x, ops::MatmulOutput how, const TensorView& y) {
                       attend(batch, index, cos_sin, x, how, y);
                       if (!is_parallel) return;
                       std::visit(
                           [&](const auto& layer) {
                               layer.apply(context, x, ops::MatmulOutput::accumulate, y);
                           },
                           mlp);
                   });
    if (has_mlp && !is_parallel) apply_mlp(context, hidden);
}

void DecoderBlock::apply_mlp(const Context& context, const TensorView& hidden) const {
    const Around around{mlp_norm, after_mlp_norm, residual_scale};
    apply_residual(context, around, hidden,
                   [&](const ConstTensorView& x, ops::MatmulOutput how, const TensorView& y) {
                       std::visit([&](const auto& layer) { layer.apply(context, x, how, y); }, mlp);
                       if (experts_beside) add_experts(context, *experts_beside, hidden, y);
                   });
}

void DecoderBlock::finish(const Context& context, const ConstTensorView& vector,
                          const TensorView& hidden) const {
    if (layer_input) layer_input->add(context, vector, hidden);
    if (out_scale != 1.0f) ops::scale(context, out_scale, hidden);
}

std::vector<const MoeMlp*> DecoderBlock::expert_layers() const {
    std::vector<const MoeMlp*> layers;
    if (!has_mlp) return layers;
    if (const auto* experts = std::get_if<MoeMlp>(&mlp)) layers.push_back(experts);
    if (experts_beside) layers.push_back(&experts_beside->experts);
    return layers;
}

bool DecoderBlock::is_capturable() const {
    const auto* const sparse = std::get_if<MoeMlp>(&mlp);
    if (experts_beside && !experts_beside->experts.stack) return false;
    return sparse == nullptr || sparse->stack.has_value();
}

size_t DecoderBlock::bytes() const {
    return norm_bytes(attention_norm) + attention.bytes() + norm_bytes(after_attention_norm) +
           state_layer_bytes(*this) + (latent_attention ? latent_attention->bytes() : 0) +
           norm_bytes(mlp_norm) + mlp_bytes(*this) + norm_bytes(after_mlp_norm) +
           (layer_input ? layer_input->bytes() : 0) + experts_bytes(*this);
}

size_t DecoderBlock::expert_bytes() const {
    const auto* const sparse = std::get_if<MoeMlp>(&mlp);
    return (sparse == nullptr ? 0 : sparse->expert_bytes()) +
           (experts_beside ? experts_beside->experts.expert_bytes() : 0);
}

int32_t DecoderBlock::rank_sums() const {
    const auto sums_of = [](const auto& layer) { return layer.rank_sums(); };
    return attention.output.sums_ranks() +
           (latent_attention ? latent_attention->output.sums_ranks() : 0) +
           (state_layer
                ? std::visit([](const auto& layer) { return layer.out.sums_ranks(); }, *state_layer)
                : 0) +
           (has_mlp ? std::visit(sums_of, mlp) : 0) +
           (experts_beside ? experts_beside->experts.rank_sums() : 0);
}

}  // namespace nvllm
