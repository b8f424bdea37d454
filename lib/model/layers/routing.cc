// Scores, groups and choices of one token.
#include "lib/model/layers/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nvllm {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void softmax(std::span<float> values) {
    const float largest = *std::max_element(values.begin(), values.end());
    float sum = 0.0f;
    for (float& value : values) {
        value = std::exp(value - largest);
        sum += value;
    }
    for (float& value : values) value /= sum;
}

float sigmoid(float value) { return 1.0f / (1.0f + std::exp(-value)); }

// Of equals the first. Where nothing is a number, the first.
int32_t best_of(std::span<const float> values) {
    return static_cast<int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

// The best value of a group, or the sum of the two best where it has two.
float group_score(std::span<const float> values, bool by_best) {
    float first = kNever;
    float second = kNever;
    for (const float value : values) {
        if (value > first) {
            second = first;
            first = value;
        } else if (value > second) {
            second = value;
        }
    }
    return values.size() > 1 && !by_best ? first + second : first;
}

// Experts of all but the best groups can no longer be chosen.
void leave_best_groups(const Routing& routing, std::span<float> choice) {
    const size_t size = choice.size() / static_cast<size_t>(routing.num_groups);
    std::vector<float> scores;
    for (size_t first = 0; first < choice.size(); first += size) {
        scores.push_back(group_score(choice.subspan(first, size), routing.groups_by_best));
    }
    std::vector<bool> is_left(scores.size());
    for (int64_t rank = 0; rank < routing.groups_per_token; ++rank) {
        const auto best = static_cast<size_t>(best_of(scores));
        is_left[best] = true;
        scores[best] = kNever;
    }
    for (size_t i = 0; i < choice.size(); ++i) {
        if (!is_left[i / size]) choice[i] = kNever;
    }
}

// What an expert's logit may differ by is relative to the larger of it and the best one.
void mix_sparsely(const Routing& routing, std::span<const float> logits, int32_t* experts,
                  float* weights) {
    std::vector<float> left(logits.begin(), logits.end());
    for (int64_t rank = 0; rank < routing.experts_per_token; ++rank) {
        const int32_t expert = best_of(left);
        const float best = left[static_cast<size_t>(expert)];
        float sum = 0.0f;
        for (size_t i = 0; i < left.size(); ++i) {
            const float factor = std::max(std::abs(logits[i]), best);
            if ((best - left[i]) / factor > 2.0f * routing.mixer_noise) continue;
            sum += std::exp(left[i] - best);
        }
        experts[rank] = expert;
        weights[rank] = 1.0f / sum;
        left[static_cast<size_t>(expert)] = kNever;
    }
}

}  // namespace

void choose_experts(const Routing& routing, std::span<float> logits, int32_t* experts,
                    float* weights) {
    const int64_t count = routing.experts_per_token;
    const std::span<float> chosen(weights, static_cast<size_t>(count));
    if (routing.scores == RouterScores::sparse_mixer) {
        return mix_sparsely(routing, logits, experts, weights);
    }
    if (routing.scores == RouterScores::softmax) softmax(logits);
    if (routing.scores == RouterScores::sigmoid) {
        for (float& value : logits) value = sigmoid(value);
    }
    std::vector<float> choice(logits.begin(), logits.end());
    for (size_t i = 0; i < routing.bias.size(); ++i) choice[i] += routing.bias[i];
    if (routing.num_groups > 1) leave_best_groups(routing, choice);
    float sum = 0.0f;
    for (int64_t rank = 0; rank < count; ++rank) {
        const int32_t expert = best_of(choice);
        experts[rank] = expert;
        weights[rank] = logits[static_cast<size_t>(expert)];
        sum += weights[rank];
        choice[static_cast<size_t>(expert)] = kNever;
    }
    if (routing.scores == RouterScores::chosen_softmax) softmax(chosen);
    if (routing.scores == RouterScores::chosen_sigmoid) {
        for (float& weight : chosen) weight = sigmoid(weight);
    }
    for (float& weight : chosen) {
        if (routing.normalize_weights) weight /= sum + routing.sum_epsilon;
        weight *= routing.weight_scale;
    }
    for (size_t rank = 0; rank < chosen.size() && !routing.expert_scales.empty(); ++rank) {
        chosen[rank] *= routing.expert_scales[static_cast<size_t>(experts[rank])];
    }
}

}  // namespace nvllm
