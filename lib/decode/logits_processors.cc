// Each logits processor and their order.
#include "lib/decode/logits_processors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "kernels/error.h"

namespace nvllm {
namespace {

// Ids may come from a tokenizer or a checkpoint that knows more tokens than the model has logits
// for.
float* score_of(std::span<float> row, int32_t token_id) {
    if (token_id < 0 || static_cast<size_t>(token_id) >= row.size()) return nullptr;
    return &row[static_cast<size_t>(token_id)];
}

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

void forbid(std::span<float> row, int32_t token_id) {
    if (float* score = score_of(row, token_id)) *score = kForbidden;
}

bool needs_allowed_token_ids(const SequenceSamplingState& state) {
    return !state.params().allowed_token_ids.empty();
}
void forbid_all_but_allowed(const SequenceSamplingState& state, Scores& scores) {
    const std::span<float> row = scores.row();
    const std::vector<int32_t>& allowed = state.allowed_token_ids();
    auto next = allowed.begin();
    for (size_t index = 0; index < row.size(); ++index) {
        while (next != allowed.end() && *next < static_cast<int32_t>(index)) ++next;
        const bool is_allowed = next != allowed.end() && *next == static_cast<int32_t>(index);
        if (!is_allowed) row[index] = kForbidden;
    }
}

// A sequence of one token is always forbidden; the last of a longer one when the others came just
// before.
bool needs_bad_words(const SequenceSamplingState& state) {
    return !state.params().bad_words.empty();
}
void forbid_bad_words(const SequenceSamplingState& state, Scores& scores) {
    const std::span<float> row = scores.row();
    visit_ends_of_bad_words(state, [row](int32_t token) { forbid(row, token); });
}

bool needs_min_tokens(const SequenceSamplingState& state) {
    return state.num_generated() < state.params().min_tokens && !state.end_token_ids().empty();
}
void forbid_end_tokens(const SequenceSamplingState& state, Scores& scores) {
    const std::span<float> row = scores.row();
    visit_early_ends(state, [row](int32_t token) { forbid(row, token); });
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

// Tang et al. 2024, "Top-n-sigma: Not All Logits Are You Need".
bool needs_top_n_sigma(const SequenceSamplingState& state) {
    return state.params().top_n_sigma > 0.0f;
}
void apply_top_n_sigma(const SequenceSamplingState& state, Scores& scores) {
    scores.keep_within_deviations(state.params().top_n_sigma);
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

// Meister et al. 2022, "Locally Typical Sampling".
bool needs_typical_p(const SequenceSamplingState& state) { return state.params().typical_p < 1.0f; }
void apply_typical_p(const SequenceSamplingState& state, Scores& scores) {
    scores.keep_typical(state.params().typical_p);
}

constexpr std::array kProcessors = {
    LogitsProcessor{"allowed_token_ids", true, needs_allowed_token_ids, forbid_all_but_allowed},
    LogitsProcessor{"bad_words", true, needs_bad_words, forbid_bad_words},
    LogitsProcessor{"min_tokens", true, needs_min_tokens, forbid_end_tokens},
    LogitsProcessor{"logit_bias", true, needs_logit_bias, add_logit_bias},
    LogitsProcessor{"repetition_penalty", true, needs_repetition_penalty, apply_repetition_penalty},
    LogitsProcessor{"frequency_penalty", true, needs_frequency_penalty, apply_frequency_penalty},
    LogitsProcessor{"presence_penalty", true, needs_presence_penalty, apply_presence_penalty},
    LogitsProcessor{"temperature", false, needs_temperature, apply_temperature},
    LogitsProcessor{"top_n_sigma", false, needs_top_n_sigma, apply_top_n_sigma},
    LogitsProcessor{"top_k", false, needs_top_k, apply_top_k},
    LogitsProcessor{"top_p", false, needs_top_p, apply_top_p},
    LogitsProcessor{"min_p", false, needs_min_p, apply_min_p},
    LogitsProcessor{"typical_p", false, needs_typical_p, apply_typical_p},
};

// The one of this name that narrows; null when there is none.
const LogitsProcessor* find_narrowing(std::string_view name) {
    for (const LogitsProcessor& processor : kProcessors) {
        if (!processor.changes_row && processor.name == name) return &processor;
    }
    return nullptr;
}

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
    for (const std::string& name : state.params().sampler_order) {
        const LogitsProcessor* processor = find_narrowing(name);
        NVLLM_CHECK(processor != nullptr, "sampler_order was not checked");
        if (processor->needed(state)) processor->apply(state, scores);
    }
    if (!state.params().sampler_order.empty()) return;
    for (const LogitsProcessor& processor : kProcessors) {
        if (!processor.changes_row && processor.needed(state)) processor.apply(state, scores);
    }
}

std::optional<Fault> check_sampler_order(const SamplingParams& params) {
    const std::vector<std::string>& names = params.sampler_order;
    for (auto name = names.begin(); name != names.end(); ++name) {
        if (find_narrowing(*name) == nullptr) {
            return Fault{ErrorKind::bad_data,
                         "samplers: '" + *name +
                             "' is not one of temperature, top_n_sigma, top_k, "
                             "top_p, min_p, typical_p",
                         "samplers"};
        }
        if (std::find(names.begin(), name, *name) != name) {
            return Fault{ErrorKind::bad_data, "samplers: '" + *name + "' comes twice", "samplers"};
        }
    }
    return std::nullopt;
}

}  // namespace nvllm
