// Masks of rows, along the drafts of an entry.
#include "lib/schedule/planning/answer_masks.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace nvllm {
namespace {

// The row after those tokens that were accepted. False: all tokens may come.
bool fill_row(AnswerConstraint& constraint, std::span<uint32_t> row) {
    // Only after a draft that ends the answer: what this row chooses is dropped.
    if (constraint.has_ended()) return true;
    if (constraint.fill_mask(row)) return true;
    std::ranges::fill(row, ~uint32_t{0});
    return false;
}

// Empty where all rows may choose any token.
std::vector<uint32_t> masks_of(AnswerConstraint& constraint, size_t words,
                               std::span<const int32_t> drafts) {
    std::vector<uint32_t> mask(words * (drafts.size() + 1));
    bool limits = false;
    int32_t num_accepted = 0;
    for (size_t row = 0; row <= drafts.size(); ++row) {
        limits |= fill_row(constraint, std::span(mask).subspan(row * words, words));
        if (row < drafts.size()) num_accepted += constraint.accept(drafts[row]);
    }
    if (num_accepted > 0) constraint.rollback(num_accepted);
    if (!limits) mask.clear();
    return mask;
}

// Extras are in the order of the entries.
void add_mask(std::vector<EntryExtras>& all, uint32_t entry, const ScheduledSequence& sequence) {
    auto extras = std::ranges::lower_bound(all, entry, {}, &EntryExtras::entry);
    const bool has_extras = extras != all.end() && extras->entry == entry;
    std::span<const int32_t> drafts;
    if (has_extras) drafts = extras->drafts.token_ids;
    const size_t words = sequence.request->request.constraint->mask_words();
    std::vector<uint32_t> mask = masks_of(*sequence.constraint, words, drafts);
    if (mask.empty()) return;
    if (!has_extras) extras = all.insert(extras, {.entry = entry, .drafts = {}, .token_mask = {}});
    extras->token_mask = std::move(mask);
}

}  // namespace

void add_token_masks(PlanBuilder& builder) {
    for (size_t i = 0; i < builder.entries.size(); ++i) {
        const PlannedEntry& planned = builder.entries[i];
        if (planned.output != OutputKind::sample || !planned.sequence->constraint) continue;
        add_mask(builder.plan.extras, static_cast<uint32_t>(i), *planned.sequence);
    }
}

int32_t num_allowed(AnswerConstraint& constraint, const DraftTokens& drafts) {
    if (!drafts.parents.empty()) return 0;
    int32_t count = 0;
    while (count < drafts.size() && !constraint.has_ended() &&
           constraint.accept(drafts.token_ids[static_cast<size_t>(count)])) {
        ++count;
    }
    if (count > 0) constraint.rollback(count);
    return count;
}

bool advance_constraint(ScheduledSequence& scheduled, std::span<const int32_t> tokens) {
    if (scheduled.constraint == nullptr) return true;
    return std::ranges::all_of(tokens,
                               [&](int32_t token) { return scheduled.constraint->accept(token); });
}

}  // namespace nvllm
