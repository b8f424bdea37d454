// A pass of the draft model is one of any model.
#include "lib/execute/propose/draft_model.h"

#include <utility>

#include "lib/model/forward_pass.h"

namespace nvllm {

DraftModel::DraftModel(std::shared_ptr<Model> model) : model_(std::move(model)) {}

TensorView DraftModel::begin(const ForwardContext& batch, const ConstTensorView&) {
    return run_blocks(*model_, batch);
}

// The keys and values of the rows before are all that it needs of them.
TensorView DraftModel::go_on(const ForwardContext& batch, const ConstTensorView&) {
    return run_blocks(*model_, batch);
}

TensorView DraftModel::logits(const Context& context, const ConstTensorView& states) {
    ForwardContext batch;
    batch.context = &context;
    return model_->head(batch, states);
}

}  // namespace nvllm
