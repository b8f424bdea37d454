// Which states a head is given.
#include "lib/execute/propose/head_proposer.h"

#include <limits>
#include <utility>

namespace nvllm {
namespace {

TargetStates states_of(const DraftHead& head, int64_t num_layers) {
    if (!head.config().fuses()) return {.last = true, .layers = {}};
    return {.last = false,
            .layers = aux_layers(head.config(), num_layers, head.reading().aux_layers)};
}

}  // namespace

HeadProposer::HeadProposer(std::unique_ptr<DraftHead> head, int64_t num_layers)
    : head_(std::move(head)), states_(states_of(*head_, num_layers)) {}

int64_t HeadProposer::max_positions() const { return std::numeric_limits<int32_t>::max(); }

TensorView HeadProposer::begin(const ForwardContext& batch, const ConstTensorView& states) {
    return head_->forward(batch, head_->fuse(*batch.context, states));
}

TensorView HeadProposer::go_on(const ForwardContext& batch, const ConstTensorView& states) {
    return head_->forward(batch, states);
}

TensorView HeadProposer::logits(const Context& context, const ConstTensorView& states) {
    return head_->logits(context, states);
}

}  // namespace nvllm
