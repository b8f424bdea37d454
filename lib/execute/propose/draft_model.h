// Drafts of a smaller model with the target's vocabulary (Leviathan et al. 2023).
#pragma once

#include <memory>

#include "lib/execute/propose/model_proposer.h"

namespace nvllm {

class DraftModel : public ModelProposer {
  public:
    explicit DraftModel(std::shared_ptr<Model> model);

    const std::vector<CacheLayout>& kv_groups() const override { return model_->kv_groups(); }
    const TargetStates& target_states() const override { return states_; }
    int32_t tokens_ahead() const override { return 0; }
    int64_t max_positions() const override { return model_->config().max_positions; }
    int64_t vocab_size() const override { return model_->config().vocab_size; }
    bool has_rope_choices() const override { return model_->original_context() > 0; }
    int64_t state_width() const override { return model_->config().hidden_size; }

    TensorView begin(const ForwardContext& batch, const ConstTensorView& states) override;
    TensorView go_on(const ForwardContext& batch, const ConstTensorView& states) override;
    TensorView logits(const Context& context, const ConstTensorView& states) override;
    int32_t target_id(int32_t column) const override { return column; }

    size_t weight_bytes() const override { return model_->weight_bytes(); }

  private:
    std::shared_ptr<Model> model_;
    TargetStates states_;  // none
};

}  // namespace nvllm
