// Finds what single entries of a plan carry in addition: draft tokens and token masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/request/batch_plan.h"

namespace nvllm {

// A view of a plan, which outlives it.
class PlanExtras {
  public:
    // REQUIRES: extras name entries that sample, in their order; drafts are a chain or a tree of
    // tokens of the vocabulary, fewer than the entry computes; a mask has a row for each row that
    // samples. Throws internal otherwise.
    PlanExtras(const BatchPlan& plan, int32_t vocab_size);

    // The draft tokens that an entry verifies; empty: none.
    const DraftTokens& drafts(size_t entry) const;
    // The tokens that row `row` of an entry may choose, u32 [(vocab + 31) / 32]; empty: all. Row 0
    // is the last known token, row i the i-th draft (DraftTokens).
    std::span<const uint32_t> token_mask(size_t entry, int32_t row) const;
    // Drafts that are wanted for the sequence's next entry.
    int32_t num_next_drafts(size_t entry) const;

  private:
    const EntryExtras* find(size_t entry) const;

    std::span<const EntryExtras> extras_;
    size_t mask_words_;  // of a row
};

}  // namespace nvllm
