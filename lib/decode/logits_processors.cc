// Each logits processor and their order.
#include "lib/decode/logits_processors.h"

#include <array>
#include <limits>

namespace nvllm {
namespace {

// Ids may come from a tokenizer or a checkpoint that knows more tokens than the model has logits
// for.
float* score_of(std::span<float> row, int32_t token_id) {
    if (token_id < 0 || static_cast<size_t>(token_id) >= row.size()) return nullptr;
    return &row[static_cast<size_t>(token_id)];
}

bool needs_min_tokens(const SequenceSamplingState& state) {
    return state.num_generated() < state.params().min_tokens && !state.end_token_ids().empty();
}
void forbid_end_tokens(const SequenceSamplingState& state, Scores& scores) {
    const std::span<float> row = scores.row();
    for (const int32_t token : state.end_token_ids()) {
        if (float* score = score_of(row, token)) *score = -std::numeric_limits<float>::infinity();
    }
}

bool needs_logit_bias(const SequenceSamplingState& state) {
    return !state.params().logit_bias.empty();
}
void add_logit_bias(const SequenceSamplingState& state, Scores& scores) {
    const std::span<float> row = scores.row();
    for (const auto& [token, bias] : state.params().logit_bias) {
        if (float* score = score_of(row, token)) *score += bias;
    }
}

// Keskar et al. 2019, "CTRL": once for each distinct token, whether it was in the prompt or
// generated.
bool needs_repetition_penalty(const SequenceSamplingState& state) {
    return state.params().repetition_penalty != 1.0f;
}
void apply_repetition_penalty(const SequenceSamplingState& state, Scores& scores) {
    const std::span<float> row = scores.row();
    const float penalty = state.params().repetition_penalty;
    for (const SeenToken& seen : state.counts().tokens()) {
        float* score = score_of(row, seen.token_id);
        if (score != nullptr) *score = *score < 0.0f ? *score * penalty : *score / penalty;
    }
}

bool needs_frequency_penalty(const SequenceSamplingState& state) {
    return state.params().frequency_penalty != 0.0f;
}
void apply_frequency_penalty(const SequenceSamplingState& state, Scores& scores) {
    const std::span<float> row = scores.row();
    const float penalty = state.params().frequency_penalty;
    for (const SeenToken& seen : state.counts().tokens()) {
        float* score = score_of(row, seen.token_id);
        if (score != nullptr) *score -= penalty * static_cast<float>(seen.num_generated);
    }
}

bool needs_presence_penalty(const SequenceSamplingState& state) {
    return state.params().presence_penalty != 0.0f;
}
void apply_presence_penalty(const SequenceSamplingState& state, Scores& scores) {
    const std::span<float> row = scores.row();
    for (const SeenToken& seen : state.counts().tokens()) {
        if (seen.num_generated == 0) continue;
        if (float* score = score_of(row, seen.token_id)) *score -= state.params().presence_penalty;
    }
}

bool needs_temperature(const SequenceSamplingState& state) {
    return state.params().temperature != 1.0f;
}
void apply_temperature(const SequenceSamplingState& state, Scores& scores) {
    scores.divide_by(state.params().temperature);
}

bool needs_top_k(const SequenceSamplingState& state) { return state.params().top_k > 0; }
void apply_top_k(const SequenceSamplingState& state, Scores& scores) {
    scores.keep_top(state.params().top_k);
}

// Holtzman et al. 2019, "The Curious Case of Neural Text Degeneration".
bool needs_top_p(const SequenceSamplingState& state) { return state.params().top_p < 1.0f; }
void apply_top_p(const SequenceSamplingState& state, Scores& scores) {
    scores.keep_weight(state.params().top_p);
}

// Nguyen et al. 2024, "Min-p Sampling for Creative and Coherent LLM Outputs".
bool needs_min_p(const SequenceSamplingState& state) { return state.params().min_p > 0.0f; }
void apply_min_p(const SequenceSamplingState& state, Scores& scores) {
    scores.keep_relative_to_best(state.params().min_p);
}

constexpr std::array kProcessors = {
    LogitsProcessor{"min_tokens", true, needs_min_tokens, forbid_end_tokens},
    LogitsProcessor{"logit_bias", true, needs_logit_bias, add_logit_bias},
    LogitsProcessor{"repetition_penalty", true, needs_repetition_penalty, apply_repetition_penalty},
    LogitsProcessor{"frequency_penalty", true, needs_frequency_penalty, apply_frequency_penalty},
    LogitsProcessor{"presence_penalty", true, needs_presence_penalty, apply_presence_penalty},
    LogitsProcessor{"temperature", false, needs_temperature, apply_temperature},
    LogitsProcessor{"top_k", false, needs_top_k, apply_top_k},
    LogitsProcessor{"top_p", false, needs_top_p, apply_top_p},
    LogitsProcessor{"min_p", false, needs_min_p, apply_min_p},
};

}  // namespace

std::span<const LogitsProcessor> logits_processors() { return kProcessors; }

bool changes_row(const SequenceSamplingState& state) {
    for (const LogitsProcessor& processor : kProcessors) {
        if (processor.changes_row && processor.needed(state)) return true;
    }
    return false;
}

void change_row(const SequenceSamplingState& state, Scores& scores) {
    for (const LogitsProcessor& processor : kProcessors) {
        if (processor.changes_row && processor.needed(state)) processor.apply(state, scores);
    }
}

void narrow(const SequenceSamplingState& state, Scores& scores) {
    for (const LogitsProcessor& processor : kProcessors) {
        if (!processor.changes_row && processor.needed(state)) processor.apply(state, scores);
    }
}

}  // namespace nvllm
