// Each logits processor and their order.
#include "lib/decode/logits_processors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "kernels/error.h"
#include "lib/request/sampling_fields.h"

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

// A token that would complete a sequence of n which is there already.
bool needs_no_repeat_ngram_size(const SequenceSamplingState& state) {
    return state.params().no_repeat_ngram_size > 0;
}
void forbid_repeated_ngrams(const SequenceSamplingState& state, Scores& scores) {
    const std::span<float> row = scores.row();
    const std::span<const int32_t> tokens = state.recent_tokens();
    const auto size = static_cast<size_t>(state.params().no_repeat_ngram_size);
    if (tokens.size() < size) return;
    const auto beginning = tokens.last(size - 1);
    for (size_t at = 0; at + size <= tokens.size(); ++at) {
        const bool is_repeated = std::equal(beginning.begin(), beginning.end(),
                                            tokens.begin() + static_cast<ptrdiff_t>(at));
        if (is_repeated) forbid(row, tokens[at + size - 1]);
    }
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

void allow_only(std::span<float> row, std::span<const int32_t> tokens) {
    std::fill(row.begin(), row.end(), kForbidden);
    for (const int32_t token : tokens) {
        if (float* score = score_of(row, token)) *score = 0.0f;
    }
}

bool needs_forced_bos_token_id(const SequenceSamplingState& state) {
    return state.params().forced_bos_token_id && state.num_prompt_tokens() == 1 &&
           state.num_generated() == 0;
}
void force_bos_token(const SequenceSamplingState& state, Scores& scores) {
    const int32_t token = *state.params().forced_bos_token_id;
    allow_only(scores.row(), {&token, 1});
}

bool needs_forced_eos_token_id(const SequenceSamplingState& state) {
    const SamplingParams& params = state.params();
    return !params.forced_eos_token_ids.empty() && params.max_tokens &&
           state.num_generated() == *params.max_tokens - 1;
}
void force_eos_token(const SequenceSamplingState& state, Scores& scores) {
    allow_only(scores.row(), state.params().forced_eos_token_ids);
}

bool needs_end_boost(const SequenceSamplingState& state) {
    const auto& boost = state.params().end_boost;
    return boost && state.num_generated() > boost->start;
}
void boost_end_tokens(const SequenceSamplingState& state, Scores& scores) {
    const EndBoost& boost = *state.params().end_boost;
    const int32_t steps = state.num_generated() - boost.start;
    const auto growth = static_cast<float>(std::pow(static_cast<double>(boost.factor), steps) - 1);
    for (const int32_t token : state.end_token_ids()) {
        float* score = score_of(scores.row(), token);
        if (score != nullptr && std::isfinite(*score)) *score += std::fabs(*score) * growth;
    }
}

bool needs_suppress_tokens(const SequenceSamplingState& state) {
    return !state.params().suppress_tokens.empty();
}
void forbid_suppressed(const SequenceSamplingState& state, Scores& scores) {
    for (const int32_t token : state.params().suppress_tokens) forbid(scores.row(), token);
}

// A forced token is none that is chosen: behind it the first one comes.
bool needs_begin_suppress_tokens(const SequenceSamplingState& state) {
    const SamplingParams& params = state.params();
    const bool begins_later = params.forced_bos_token_id && state.num_prompt_tokens() == 1;
    return !params.begin_suppress_tokens.empty() && state.num_generated() == (begins_later ? 1 : 0);
}
void forbid_at_begin(const SequenceSamplingState& state, Scores& scores) {
    for (const int32_t token : state.params().begin_suppress_tokens) forbid(scores.row(), token);
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

// Potraghloo et al. 2025, "Top-H Decoding".
bool needs_top_h(const SequenceSamplingState& state) { return state.params().top_h > 0.0f; }
void apply_top_h(const SequenceSamplingState& state, Scores& scores) {
    scores.keep_entropy(state.params().top_h);
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

// Hewitt et al. 2022, "Truncation Sampling as Language Model Desmoothing", for both.
bool is_cutoff(float value) { return value > 0.0f && value < 1.0f; }
bool needs_epsilon_cutoff(const SequenceSamplingState& state) {
    return is_cutoff(state.params().epsilon_cutoff);
}
void apply_epsilon_cutoff(const SequenceSamplingState& state, Scores& scores) {
    scores.keep_probable(state.params().epsilon_cutoff);
}

bool needs_eta_cutoff(const SequenceSamplingState& state) {
    return is_cutoff(state.params().eta_cutoff);
}
void apply_eta_cutoff(const SequenceSamplingState& state, Scores& scores) {
    const double epsilon = state.params().eta_cutoff;
    scores.keep_probable(std::min(epsilon, std::sqrt(epsilon) * std::exp(-scores.entropy())));
}

// In the order in which they are applied.
constexpr std::array kRowProcessors = {
    LogitsProcessor{"allowed_token_ids", true, needs_allowed_token_ids, forbid_all_but_allowed},
    LogitsProcessor{"bad_words", true, needs_bad_words, forbid_bad_words},
    LogitsProcessor{"no_repeat_ngram_size", true, needs_no_repeat_ngram_size,
                    forbid_repeated_ngrams},
    LogitsProcessor{"min_tokens", true, needs_min_tokens, forbid_end_tokens},
    LogitsProcessor{"logit_bias", true, needs_logit_bias, add_logit_bias},
    LogitsProcessor{"repetition_penalty", true, needs_repetition_penalty, apply_repetition_penalty},
    LogitsProcessor{"frequency_penalty", true, needs_frequency_penalty, apply_frequency_penalty},
    LogitsProcessor{"presence_penalty", true, needs_presence_penalty, apply_presence_penalty},
    LogitsProcessor{"forced_bos_token_id", true, needs_forced_bos_token_id, force_bos_token},
    LogitsProcessor{"forced_eos_token_id", true, needs_forced_eos_token_id, force_eos_token},
    LogitsProcessor{"exponential_decay_length_penalty", true, needs_end_boost, boost_end_tokens},
    LogitsProcessor{"suppress_tokens", true, needs_suppress_tokens, forbid_suppressed},
    LogitsProcessor{"begin_suppress_tokens", true, needs_begin_suppress_tokens, forbid_at_begin},
};

constexpr size_t usual_position(std::string_view name) {
    return static_cast<size_t>(std::ranges::find(kNarrowingSamplers, name) -
                               kNarrowingSamplers.begin());
}

// The usual order is that of the list of sampling fields. An unknown name, a second step of one
// name, or a name without a step does not compile.
template <size_t Count>
constexpr std::array<LogitsProcessor, Count> in_usual_order(
    const std::array<LogitsProcessor, Count>& steps) {
    static_assert(Count == kNarrowingSamplers.size(), "one step for each narrowing sampler");
    std::array<LogitsProcessor, Count> ordered{};
    for (const LogitsProcessor& step : steps) {
        LogitsProcessor& target = ordered.at(usual_position(step.name));
        if (target.apply != nullptr) throw Error(ErrorKind::internal, "two steps of one name");
        target = step;
    }
    return ordered;
}

constexpr auto kNarrowingProcessors = in_usual_order(std::array{
    LogitsProcessor{"temperature", false, needs_temperature, apply_temperature},
    LogitsProcessor{"top_n_sigma", false, needs_top_n_sigma, apply_top_n_sigma},
    LogitsProcessor{"top_h", false, needs_top_h, apply_top_h},
    LogitsProcessor{"top_k", false, needs_top_k, apply_top_k},
    LogitsProcessor{"top_p", false, needs_top_p, apply_top_p},
    LogitsProcessor{"min_p", false, needs_min_p, apply_min_p},
    LogitsProcessor{"typical_p", false, needs_typical_p, apply_typical_p},
    LogitsProcessor{"epsilon_cutoff", false, needs_epsilon_cutoff, apply_epsilon_cutoff},
    LogitsProcessor{"eta_cutoff", false, needs_eta_cutoff, apply_eta_cutoff},
});

constexpr auto kProcessors = [] {
    std::array<LogitsProcessor, kRowProcessors.size() + kNarrowingProcessors.size()> all{};
    const auto rest = std::ranges::copy(kRowProcessors, all.begin()).out;
    std::ranges::copy(kNarrowingProcessors, rest);
    return all;
}();

}  // namespace

std::span<const LogitsProcessor> logits_processors() { return kProcessors; }

void forbid_all_but(std::span<const uint32_t> token_mask, std::span<float> row) {
    for (size_t first = 0; first < row.size(); first += 32) {
        const std::span<float> part = row.subspan(first, std::min<size_t>(32, row.size() - first));
        const uint32_t word = token_mask[first / 32];
        // Most words are all zeros or all ones.
        if (word == ~uint32_t{0}) continue;
        if (word == 0) {
            std::ranges::fill(part, kForbidden);
            continue;
        }
        for (size_t bit = 0; bit < part.size(); ++bit) {
            if ((word >> bit & 1) == 0) part[bit] = kForbidden;
        }
    }
}

bool changes_row(const SequenceSamplingState& state) {
    return std::ranges::any_of(
        kRowProcessors, [&](const LogitsProcessor& processor) { return processor.needed(state); });
}

void change_row(const SequenceSamplingState& state, Scores& scores) {
    for (const LogitsProcessor& processor : kRowProcessors) {
        if (processor.needed(state)) processor.apply(state, scores);
    }
}

void narrow(const SequenceSamplingState& state, Scores& scores) {
    const auto apply = [&](const LogitsProcessor& processor) {
        if (processor.needed(state)) processor.apply(state, scores);
    };
    for (const std::string& name : state.params().sampler_order) {
        const size_t position = usual_position(name);
        NVLLM_CHECK(position < kNarrowingProcessors.size(), "sampler_order was not checked");
        apply(kNarrowingProcessors[position]);
    }
    if (state.params().sampler_order.empty()) std::ranges::for_each(kNarrowingProcessors, apply);
}

}  // namespace nvllm
