// Draft tokens in plans, and what becomes of them.
#include "lib/schedule/planning/draft_planner.h"

#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "lib/schedule/planning/answer_masks.h"

namespace nvllm {
namespace {

// Leading accepted drafts whose KV lies in the slot of their position. `rows` is empty for a chain.
int32_t num_in_place(std::span<const int32_t> rows, int32_t num_accepted) {
    if (rows.empty()) return num_accepted;
    int32_t count = 0;
    while (count < num_accepted && rows[static_cast<size_t>(count)] == count + 1) ++count;
    return count;
}

void cut(DraftTokens& drafts, int32_t count) {
    if (drafts.size() <= count) return;
    drafts.token_ids.resize(static_cast<size_t>(count));
    if (!drafts.parents.empty()) drafts.parents.resize(static_cast<size_t>(count));
}

}  // namespace

void DraftPlanner::add_to_entries(PlanBuilder& builder) {
    for (size_t i = 0; i < builder.entries.size(); ++i) {
        const PlannedEntry& entry = builder.entries[i];
        if (entry.count != 1 || entry.output != OutputKind::sample) continue;
        // The drafts follow a known token, not a placeholder.
        if (entry.sequence->sequence.num_placeholders > 0) continue;
        const int32_t most = max_drafts(builder, entry.sequence->sequence);
        if (most <= 0) continue;
        DraftTokens drafts = take_drafts(*entry.sequence);
        cut(drafts, most);
        if (entry.sequence->constraint != nullptr) {
            cut(drafts, num_allowed(*entry.sequence->constraint, drafts));
        }
        if (drafts.empty() || !allocate(builder, i, drafts.size())) continue;
        builder.add_drafts(i, std::move(drafts));
    }
}

DraftTokens DraftPlanner::take_drafts(ScheduledSequence& scheduled) {
    PendingDrafts pending = std::exchange(scheduled.drafts, {});
    const bool fresh = pending.num_known == scheduled.sequence.num_tokens();
    if (fresh && !pending.tokens.empty()) return std::move(pending.tokens);
    return proposer_ == nullptr ? DraftTokens{} : proposer_->propose(scheduled.sequence);
}

// One token follows the last draft, and the last token of a sequence is never computed.
int32_t DraftPlanner::max_drafts(const PlanBuilder& builder, const Sequence& sequence) const {
    return std::min({builder.budget.left(), context_.config.largest_step() - 1,
                     sequence.longest_length - sequence.num_tokens() - 1});
}

// One block stays free for each running sequence.
bool DraftPlanner::allocate(PlanBuilder& builder, size_t index, int32_t num_drafts) {
    CacheManager& cache = context_.cache;
    PlannedEntry& entry = builder.entries[index];
    const int32_t end = entry.sequence->sequence.num_planned() + num_drafts;
    const int32_t more =
        cache.shape().num_blocks_for(end) - cache.shape().num_blocks_for(end - num_drafts);
    if (more > 0 && cache.num_available() < more + running_.size()) return false;
    return cache.allocate(entry.sequence->cache, end, builder.plan.entries[index].new_blocks);
}

void DraftPlanner::roll_back(PlanInFlight& plan, const StepResult& result,
                             std::span<const StopDecision> decisions) const {
    auto extras = result.extras.begin();
    for (const PlannedDrafts& drafts : plan.drafts) {
        while (extras != result.extras.end() && extras->entry < drafts.entry) ++extras;
        PlannedEntry& entry = plan.entries[drafts.entry];
        Sequence& sequence = entry.sequence->sequence;
        if (sequence.state == SequenceState::finished) continue;
        const int32_t num_accepted = std::max(1, decisions[drafts.entry].num_accepted) - 1;
        NVLLM_CHECK(num_accepted <= drafts.count, "more drafts are accepted than were planned");
        std::span<const int32_t> rows;
        if (extras != result.extras.end() && extras->entry == drafts.entry) {
            rows = extras->accepted_rows;
        }
        NVLLM_CHECK(rows.empty() || std::ssize(rows) >= num_accepted,
                    "each accepted draft has a row");
        const int32_t num_rejected = drafts.count - num_in_place(rows, num_accepted);
        sequence.roll_back(num_rejected, drafts.count);
        entry.count -= num_rejected;
    }
}

void DraftPlanner::take_next_drafts(const PlanInFlight& plan, const StepResult& result) {
    for (const StepExtras& extras : result.extras) {
        if (extras.next_drafts.empty()) continue;
        NVLLM_CHECK(extras.entry < plan.entries.size(), "drafts are for an entry of the plan");
        ScheduledSequence& scheduled = *plan.entries[extras.entry].sequence;
        if (scheduled.sequence.state == SequenceState::finished) continue;
        scheduled.drafts = {extras.next_drafts, scheduled.sequence.num_tokens()};
        has_drafts_ = true;
    }
}

}  // namespace nvllm
