// The ordered table of the steps that change a row of logits before a token is chosen.
//
// Order: first the steps that change the row, up to the penalties in vLLM's order, then forced
// tokens and the like in that of transformers' generate(). The steps that narrow follow, in the
// order of kNarrowingSamplers, which is that of generate() too. Definitions are those of
// transformers' classes, if it has one, except that probabilities are summed in double here. If
// equal logits are on both sides of the limit of top-p, the lower ids stay; transformers leaves
// that open.
//
// To add a step: its function and its row in logits_processors.cc, a member in SamplingParams, and
// its row in lib/request/sampling_fields.h.
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
    const char* name = nullptr;  // of the parameter
    // Works on the whole row and affects greedy choice too. The others only narrow or reweigh for a
    // random draw.
    bool changes_row = false;
    bool (*needed)(const SequenceSamplingState& state) = nullptr;
    void (*apply)(const SequenceSamplingState& state, Scores& scores) = nullptr;
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
// Applies the needed ones that narrow or reweigh: in the usual order, or those that sampler_order
// names, in its order. REQUIRES: SamplingParams::check() found nothing; scores.max() is finite, no
// score is NaN.
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

}  // namespace nvllm
