// Masks of rows, along the branches of an entry's drafts.
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

// A constraint that stands behind one draft after another, and at the end where it was.
class DraftWalk {
  public:
    DraftWalk(AnswerConstraint& constraint, const DraftTokens& drafts)
        : constraint_(constraint), drafts_(drafts) {}
    DraftWalk(const DraftWalk&) = delete;
    DraftWalk& operator=(const DraftWalk&) = delete;
    ~DraftWalk() { go_back_to(0); }

    // Goes behind a row. False: one of the drafts up to it may not come; it stands before that one.
    bool go_to(int32_t row) {
        std::vector<int32_t> wanted;  // deepest first
        for (; row > 0; row = drafts_.parent(row)) wanted.push_back(row);
        size_t alike = 0;
        while (alike < std::min(wanted.size(), path_.size()) &&
               path_[alike] == wanted[wanted.size() - 1 - alike]) {
            ++alike;
        }
        go_back_to(alike);
        while (path_.size() < wanted.size()) {
            const int32_t next = wanted[wanted.size() - 1 - path_.size()];
            const int32_t token = drafts_.token_ids[static_cast<size_t>(next - 1)];
            if (constraint_.has_ended() || !constraint_.accept(token)) return false;
            path_.push_back(next);
        }
        return true;
    }

  private:
    void go_back_to(size_t count) {
        if (path_.size() == count) return;
        constraint_.rollback(static_cast<int32_t>(path_.size() - count));
        path_.resize(count);
    }

    AnswerConstraint& constraint_;
    const DraftTokens& drafts_;
    std::vector<int32_t> path_;  // rows
};

// Empty where all rows may choose any token.
std::vector<uint32_t> masks_of(AnswerConstraint& constraint, size_t words,
                               const DraftTokens& drafts) {
    std::vector<uint32_t> mask(words * static_cast<size_t>(drafts.size() + 1));
    bool limits = false;
    DraftWalk walk(constraint, drafts);
    for (int32_t row = 0; row <= drafts.size(); ++row) {
        walk.go_to(row);
        limits |=
            fill_row(constraint, std::span(mask).subspan(static_cast<size_t>(row) * words, words));
    }
    if (!limits) mask.clear();
    return mask;
}

// Extras are in the order of the entries.
void add_mask(std::vector<EntryExtras>& all, uint32_t entry, const ScheduledSequence& sequence) {
    auto extras = std::ranges::lower_bound(all, entry, {}, &EntryExtras::entry);
    const bool has_extras = extras != all.end() && extras->entry == entry;
    const DraftTokens drafts = has_extras ? extras->drafts : DraftTokens{};
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

void drop_refused(AnswerConstraint& constraint, DraftTokens& drafts) {
    DraftTokens left;
    std::vector<int32_t> new_rows{0};  // by rows; -1: dropped
    {
        DraftWalk walk(constraint, drafts);
        for (int32_t row = 1; row <= drafts.size(); ++row) {
            const int32_t parent = new_rows[static_cast<size_t>(drafts.parent(row))];
            new_rows.push_back(parent < 0 || !walk.go_to(row) ? -1 : left.size() + 1);
            if (new_rows.back() < 0) continue;
            left.token_ids.push_back(drafts.token_ids[static_cast<size_t>(row - 1)]);
            if (!drafts.parents.empty()) left.parents.push_back(parent);
        }
    }
    drafts = std::move(left);
}

bool advance_constraint(ScheduledSequence& scheduled, std::span<const int32_t> tokens) {
    if (scheduled.constraint == nullptr) return true;
    return std::ranges::all_of(tokens,
                               [&](int32_t token) { return scheduled.constraint->accept(token); });
}

}  // namespace nvllm
