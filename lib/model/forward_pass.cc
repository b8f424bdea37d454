// What a step computes of every model.
#include "lib/model/forward_pass.h"

#include "kernels/error.h"
#include "kernels/ops/elementwise.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {

TensorView Model::classify(const ForwardContext&, const ConstTensorView&) {
    NVLLM_CHECK(false, "a model without a head of classes has no values of them");
    return {};
}

TensorView run_blocks(Model& model, const ForwardContext& batch) {
    model.begin(batch);
    const TensorView hidden = model.embed(batch);
    for (int32_t index = 0; index < model.num_blocks(); ++index) {
        model.block(index, batch, hidden);
    }
    return hidden;
}

TensorView run_head(Model& model, const ForwardContext& batch, const TensorView& hidden,
                    const ConstTensorView& indices) {
    const TensorView wanted = take_activations(*batch.context, {indices.dim(0), hidden.dim(1)});
    ops::gather_rows(*batch.context, hidden, indices, wanted);
    return model.head(batch, wanted);
}

}  // namespace nvllm
