// The inverse frequencies of rotary embeddings under every kind of length scaling.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/checkpoint/model_config.h"

namespace nvllm {

struct RopeFrequencies {
    std::vector<float> inverse;     // [rotary / 2]
    float attention_factor = 1.0f;  // on cosines and sines
    // Of sequences that stay within original_context(); empty: the same.
    std::vector<float> inverse_within = {};
    // Queries are multiplied with ops::position_factors() of these; beta 0: they are not.
    float query_beta = 0.0f;
    int64_t original_positions = 0;
    int64_t query_offset = 0;
};

// Positions of the context that a model was first trained for, where sequences that cannot leave it
// have frequencies of their own (longrope's short factors); 0: all sequences have the same.
int64_t original_context(const RopeConfig& rope, int64_t max_positions, int64_t max_model_len);

// As transformers computes them. Kinds that depend on the length of a sequence (dynamic, longrope)
// are settled here once for all sequences from `max_model_len`, but for those within
// original_context(). `max_positions` is the model's own limit.
RopeFrequencies rope_frequencies(const RopeConfig& rope, int64_t head_dim, int64_t max_positions,
                                 int64_t max_model_len);

// What YaRN with mscale_all_dim multiplies scores of latent attention with (DeepSeek-V2,
// DeepSeek-AI 2024); 1 without it.
double latent_score_factor(const RopeConfig& rope);

}  // namespace nvllm
