// How tokens choose their experts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nvllm {

// What the router's logits become.
enum class RouterScores : uint8_t {
    softmax,         // over all experts
    sigmoid,         // of each (DeepSeek V3)
    chosen_softmax,  // experts are chosen by their logits; softmax over those chosen (gpt-oss)
    chosen_sigmoid,  // alike; sigmoid of each (Llama 4)
    // One after another, each by the largest logit that is left; softmax over those logits that
    // differ from it by less than the noise of training (Liu et al. 2023, SparseMixer)
    sparse_mixer,
};

struct Routing {
    int64_t experts_per_token = 0;
    RouterScores scores = RouterScores::softmax;
    bool normalize_weights = false;  // the chosen experts' weights are scaled to sum to 1
    float sum_epsilon = 0.0f;        // added to that sum (LFM2)
    float mixer_noise = 0.0f;        // of sparse_mixer
    // Added to the scores for the choice alone; empty: nothing. float32 [experts]
    std::vector<float> bias = {};
    // Only experts of the best groups can be chosen; a group is as good as its two best experts
    // together, or as its best one. 1: all are one group.
    int64_t num_groups = 1;
    int64_t groups_per_token = 1;
    bool groups_by_best = false;
    float weight_scale = 1.0f;  // on the weights at last
    // On the weight of each expert, alike; empty: nothing. float32 [experts]
    std::vector<float> expert_scales = {};

    // Whether ops::route() does it. (sum_epsilon matters to no softmax.)
    bool is_plain() const {
        return scores == RouterScores::softmax && bias.empty() && num_groups == 1 &&
               weight_scale == 1.0f && expert_scales.empty();
    }
};

// The experts of one token, best first and of equals the first, and their weights:
// [experts_per_token] each. Consumes `logits` [experts].
void choose_experts(const Routing& routing, std::span<float> logits, int32_t* experts,
                    float* weights);

}  // namespace nvllm
