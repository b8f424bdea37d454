// What a step computes of every model.
#include "lib/model/forward_pass.h"

#include <algorithm>

#include "kernels/error.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/elementwise.h"
#include "lib/model/layers/copy_rows.h"
#include "lib/model/layers/scratch.h"
#include "lib/model/lora/lora_batch.h"

namespace nvllm {

size_t num_cached_layers(std::span<const CacheLayout> groups) {
    int32_t last = -1;
    for (const CacheLayout& group : groups) {
        for (const int32_t layer : group.layers) last = std::max(last, layer);
    }
    return static_cast<size_t>(last + 1);
}

TensorView Model::classify(const ForwardContext&, const ConstTensorView&) {
    NVLLM_CHECK(false, "a model without a head of classes has no values of them");
    return {};
}

namespace {

bool wants_aux_hidden(const ForwardContext& batch, int64_t done) {
    return batch.aux_hidden != nullptr &&
           std::ranges::find(batch.aux_hidden->layers, done) != batch.aux_hidden->layers.end();
}

// The state after `done` blocks to all places that ask for it.
void keep_aux_hidden(const ForwardContext& batch, int64_t done, const ConstTensorView& hidden) {
    if (batch.aux_hidden == nullptr) return;
    const int64_t width = hidden.dim(1);
    int64_t first = 0;
    for (const int64_t layer : batch.aux_hidden->layers) {
        if (layer == done) {
            copy_rows(*batch.context, hidden, batch.aux_hidden->out.columns(first, width));
        }
        first += width;
    }
}

void check_aux_hidden(const Model& model, const ForwardContext& batch) {
    if (batch.aux_hidden == nullptr) return;
    for (const int64_t layer : batch.aux_hidden->layers) {
        NVLLM_CHECK(layer >= 0 && layer <= model.num_blocks(),
                    "a state after a block that the model has not");
    }
}

// What the first block here reads.
TensorView first_hidden(Model& model, const ForwardContext& batch) {
    const Context& context = *batch.context;
    if (!ops::has_previous_stage(context)) return model.embed(batch);
    const TensorView hidden =
        take_activations(context, {batch.tokens(), model.config().hidden_size});
    ops::receive_from_previous(context, hidden);
    return hidden;
}

}  // namespace

TensorView run_blocks(Model& model, const ForwardContext& batch) {
    check_aux_hidden(model, batch);
    model.begin(batch);
    const TensorView hidden = first_hidden(model, batch);
    keep_aux_hidden(batch, 0, hidden);
    for (int32_t index = 0; index < model.num_blocks(); ++index) {
        model.block(index, batch, hidden);
        if (index + 1 < model.num_blocks()) keep_aux_hidden(batch, index + 1, hidden);
    }
    if (wants_aux_hidden(batch, model.num_blocks())) {
        const ScratchArena::Scope scope(*batch.context->scratch);
        keep_aux_hidden(batch, model.num_blocks(), model.last_hidden(batch, hidden));
    }
    if (ops::has_next_stage(*batch.context)) ops::send_to_next(*batch.context, hidden);
    return hidden;
}

TensorView head_of_rows(Model& model, const ForwardContext& batch, const ConstTensorView& hidden,
                        const ConstTensorView& adapters) {
    if (batch.context->lora == nullptr) return model.head(batch, hidden);
    LoraBatch of_rows = *batch.context->lora;
    of_rows.slots = adapters;
    Context context = *batch.context;
    context.lora = &of_rows;
    ForwardContext rows = batch;
    rows.context = &context;
    return model.head(rows, hidden);
}

TensorView run_head(Model& model, const ForwardContext& batch, const TensorView& hidden,
                    const ConstTensorView& indices, const ConstTensorView& adapters) {
    const TensorView wanted = take_activations(*batch.context, {indices.dim(0), hidden.dim(1)});
    ops::gather_rows(*batch.context, hidden, indices, wanted);
    return head_of_rows(model, batch, wanted, adapters);
}

}  // namespace nvllm
