// Differences of counts.
#include "lib/execute/ranks/expert_use.h"

#include "lib/model/layers/moe_mlp.h"

namespace nvllm {

void ExpertUse::report(const Model& model, StepResult& result) {
    const std::vector<const ExpertCounts*> layers = model.expert_counts();
    int64_t dropped = 0;
    for (const ExpertCounts* layer : layers) dropped += layer->dropped;
    result.dropped_experts = dropped - dropped_;
    dropped_ = dropped;
    if (!reports_load_) return;
    tokens_.resize(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
        ExpertLoad& load = result.expert_load.emplace_back();
        load = {layers[i]->block, layers[i]->chosen};
        tokens_[i].resize(load.tokens.size());
        for (size_t expert = 0; expert < load.tokens.size(); ++expert) {
            load.tokens[expert] -= tokens_[i][expert];
        }
        tokens_[i] = layers[i]->chosen;
    }
}

}  // namespace nvllm
