// The ordered table of everything that may change a row of logits before a token is chosen.
//
// Order: allowed_token_ids, bad_words, repeated n-grams, end tokens forbidden by min_tokens,
// logit_bias, repetition, frequency and presence penalty as in vLLM; then forced tokens, the end
// tokens' growing scores, suppressed tokens, temperature, top-n-sigma, top-h, top-k, top-p, min-p,
// typical-p, epsilon and eta as in transformers' generate(), which lacks top-n-sigma. Definitions
// are those of transformers' classes where it has one (its float32 sums aside: shares are summed in
// double here). Where equal scores straddle the edge of top-p, transformers leaves open which of
// them stay; here the lower ids do.
//
// To add one: a function in logits_processors.cc, its place in the table, a field in
// SamplingParams.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/decode/sampling_state.h"
#include "lib/decode/scores.h"

namespace nvllm {

struct LogitsProcessor {
    const char* name;  // as the parameter is called
    // Works on the whole row and matters for greedy choice too; the others only narrow or reweigh
    // for a random draw.
    bool changes_row;
    bool (*needed)(const SequenceSamplingState& state);
    void (*apply)(const SequenceSamplingState& state, Scores& scores);
};

// All of them, in the order in which they are applied.
std::span<const LogitsProcessor> logits_processors();

// Whether some needed processor changes the row itself.
bool changes_row(const SequenceSamplingState& state);

// Forbids the tokens whose bit in `token_mask`, u32 [(vocab + 31) / 32], is 0. A mask of a step
// rather than of a sequence: applied before the table.
void forbid_all_but(std::span<const uint32_t> token_mask, std::span<float> row);

// Applies the needed ones that change the row.
void change_row(const SequenceSamplingState& state, Scores& scores);
// Applies the needed ones that narrow and reweigh what is left, or those that sampler_order names,
// in its order. REQUIRES: check_sampler_order() found nothing; scores.max() is finite, no score is
// NaN.
void narrow(const SequenceSamplingState& state, Scores& scores);

// Calls visit(token) for each token that would complete one of bad_words; some may come twice.
template <typename Visit>
void visit_ends_of_bad_words(const SequenceSamplingState& state, Visit&& visit) {
    const std::span<const int32_t> recent = state.recent_tokens();
    for (const std::vector<int32_t>& word : state.params().bad_words) {
        if (word.empty() || word.size() - 1 > recent.size()) continue;
        const auto before = recent.last(word.size() - 1);
        if (std::equal(before.begin(), before.end(), word.begin())) visit(word.back());
    }
}

// Calls visit(token) for each that would end the sequence before min_tokens; some may come twice.
template <typename Visit>
void visit_early_ends(const SequenceSamplingState& state, Visit&& visit) {
    if (state.num_generated() >= state.params().min_tokens) return;
    for (const int32_t token : state.end_token_ids()) visit(token);
}

// A name in sampler_order that is none of those that narrow, or comes twice; empty when all is
// well.
std::optional<Fault> check_sampler_order(const SamplingParams& params);

}  // namespace nvllm
