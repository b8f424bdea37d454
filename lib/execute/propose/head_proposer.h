// Drafts of a head over the target's hidden states: EAGLE, EAGLE-3, next-token layers.
#pragma once

#include <memory>

#include "lib/execute/propose/model_proposer.h"
#include "lib/model/drafts/draft_head.h"

namespace nvllm {

class HeadProposer : public ModelProposer {
  public:
    // `num_layers`: of the target.
    HeadProposer(std::unique_ptr<DraftHead> head, int64_t num_layers);

    const std::vector<CacheLayout>& kv_groups() const override { return head_->kv_groups(); }
    const TargetStates& target_states() const override { return states_; }
    int32_t tokens_ahead() const override { return 1; }
    // Published heads state the length that they were trained on, not one that ends their use.
    int64_t max_positions() const override;
    int64_t vocab_size() const override { return head_->config().block.vocab_size; }
    bool has_rope_choices() const override { return false; }
    int64_t state_width() const override { return head_->config().block.hidden_size; }

    TensorView begin(const ForwardContext& batch, const ConstTensorView& states) override;
    TensorView go_on(const ForwardContext& batch, const ConstTensorView& states) override;
    TensorView logits(const Context& context, const ConstTensorView& states) override;
    int32_t target_id(int32_t column) const override { return head_->target_id(column); }

    size_t weight_bytes() const override { return head_->weight_bytes(); }

  private:
    std::unique_ptr<DraftHead> head_;
    TargetStates states_;
};

}  // namespace nvllm
