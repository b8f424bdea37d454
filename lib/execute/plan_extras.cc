// Checks extras once, then looks them up by entry.
#include "lib/execute/plan_extras.h"

#include <algorithm>

#include "kernels/error.h"
#include "kernels/ops/attention.h"

namespace nvllm {
namespace {

void check_drafts(const DraftTokens& drafts, const PlanEntry& entry, int32_t vocab_size) {
    NVLLM_CHECK(drafts.parents.empty() || drafts.parents.size() == drafts.token_ids.size(),
                "each draft of a tree follows a row");
    NVLLM_CHECK(!drafts.branches() || drafts.size() <= ops::kMaxTreeRows,
                "a tree has as many rows as attention takes for one");
    for (int32_t row = 1; row <= drafts.size(); ++row) {
        const int32_t parent = drafts.parent(row);
        NVLLM_CHECK(parent >= 0 && parent < row, "a draft follows a row before its own");
    }
    NVLLM_CHECK(drafts.size() < entry.count, "an entry computes its last token and its drafts");
    for (const int32_t token : drafts.token_ids) {
        NVLLM_CHECK(token >= 0 && token < vocab_size, "a draft token is outside the vocabulary");
    }
}

}  // namespace

PlanExtras::PlanExtras(const BatchPlan& plan, int32_t vocab_size)
    : extras_(plan.extras), mask_words_((static_cast<size_t>(vocab_size) + 31) / 32) {
    size_t next = 0;
    for (const EntryExtras& extras : extras_) {
        NVLLM_CHECK(extras.entry >= next && extras.entry < plan.entries.size(),
                    "extras name entries of the plan in their order");
        next = size_t{extras.entry} + 1;
        const PlanEntry& entry = plan.entries[extras.entry];
        NVLLM_CHECK(entry.output == OutputKind::sample, "only entries that sample have extras");
        check_drafts(extras.drafts, entry, vocab_size);
        const size_t rows = extras.drafts.token_ids.size() + 1;
        NVLLM_CHECK(extras.token_mask.empty() || extras.token_mask.size() == rows * mask_words_,
                    "a token mask has a row for each row that samples");
        NVLLM_CHECK(extras.num_next_drafts >= 0, "fewer than no drafts are wanted");
    }
}

const EntryExtras* PlanExtras::find(size_t entry) const {
    const auto found = std::ranges::lower_bound(extras_, entry, {}, &EntryExtras::entry);
    return found != extras_.end() && found->entry == entry ? &*found : nullptr;
}

const DraftTokens& PlanExtras::drafts(size_t entry) const {
    static const DraftTokens kNone;
    const EntryExtras* extras = find(entry);
    return extras == nullptr ? kNone : extras->drafts;
}

int32_t PlanExtras::num_next_drafts(size_t entry) const {
    const EntryExtras* extras = find(entry);
    return extras == nullptr ? 0 : extras->num_next_drafts;
}

std::span<const uint32_t> PlanExtras::token_mask(size_t entry, int32_t row) const {
    const EntryExtras* extras = find(entry);
    if (extras == nullptr || extras->token_mask.empty()) return {};
    return std::span(extras->token_mask)
        .subspan(static_cast<size_t>(row) * mask_words_, mask_words_);
}

}  // namespace nvllm
