// The order of ops of per-layer inputs.
#include "lib/model/layers/layer_input.h"

#include <cmath>

#include "kernels/ops/activation.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {

void LayerInput::add(const Context& context, const ConstTensorView& vector,
                     const TensorView& hidden) const {
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView gated = take_activations(context, {hidden.dim(0), gate.out()});
    gate.apply(context, hidden, ops::MatmulOutput::overwrite, gated);
    ops::gated_activation(context, activation.function, gated, vector, gated);
    const TensorView added = take_activations(context, {hidden.dim(0), hidden.dim(1)});
    out.apply(context, gated, ops::MatmulOutput::overwrite, added);
    norm.apply(context, added, added);
    ops::add(context, added, hidden);
}

TensorView LayerInputs::of_step(const ForwardContext& batch,
                                const ConstTensorView& embeddings) const {
    const Context& context = *batch.context;
    const int64_t tokens = embeddings.dim(0);
    const TensorView all = take_activations(context, {tokens, projection.out()});
    projection.apply(context, embeddings, ops::MatmulOutput::overwrite, all);
    const auto hidden = static_cast<float>(embeddings.dim(1));
    ops::scale(context, 1.0f / std::sqrt(hidden), all);
    const TensorView of_layers = all.split_last(projection.out() / size);
    norm.apply(context, of_layers, of_layers);
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView looked_up = take_activations(context, {tokens, projection.out()});
    ops::embedding(context, table.view(), batch.token_ids, table_scale, looked_up);
    ops::add(context, looked_up, all);
    ops::scale(context, 1.0f / std::sqrt(2.0f), all);
    return all;
}

}  // namespace nvllm
