// A plan under construction.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lib/request/batch_plan.h"
#include "lib/schedule/planning/token_budget.h"
#include "lib/schedule/state/plans_in_flight.h"
#include "lib/schedule/state/scheduled_sequence.h"

namespace nvllm {

// Limits of the next plan, in addition to the configuration.
struct PlanLimits {
    std::optional<SequenceId> alone;    // no other sequence is planned
    std::optional<int32_t> max_tokens;  // in the step

    bool operator==(const PlanLimits&) const = default;
};

struct PlanBuilder {
    using BlockLists = std::vector<std::vector<BlockId>>;  // per cache group

    // `token_budget`: the step's tokens without the limits.
    PlanBuilder(const SchedulerConfig& config, int32_t token_budget, const PlanLimits& limits);

    bool leaves_out(const ScheduledSequence& scheduled) const {
        return alone && *alone != scheduled.sequence.id;
    }

    // The worker learns of the sequence, with the blocks that hold its first tokens: it was
    // admitted, forked since the last plan, swapped in, or computed elsewhere.
    void register_sequence(ScheduledSequence& scheduled, BlockLists block_tables);

    // Plans the next `count` tokens. REQUIRES: that many are unplanned; it has blocks for them.
    void add_entry(ScheduledSequence& scheduled, int32_t count, BlockLists&& new_blocks) {
        Sequence& sequence = scheduled.sequence;
        PlanEntry& entry = plan.entries.emplace_back();
        entry.sequence = sequence.id;
        entry.first = sequence.num_planned();
        entry.count = count;
        entry.new_blocks.swap(new_blocks);
        sequence.plan(count);
        const BeamGroup* beams = scheduled.request->beams.get();
        if (sequence.num_unplanned() == 0) {
            entry.output = beams == nullptr ? OutputKind::sample : OutputKind::candidates;
            if (scheduled.request->request.pooling) entry.output = OutputKind::pooled;
            entry.num_candidates = beams == nullptr ? 0 : beams->num_candidates;
        }
        if (!scheduled.unsent_tokens.empty()) entry.new_token_ids.swap(scheduled.unsent_tokens);
        entries.push_back({&scheduled, count, entry.output});
        budget.spend(count, entries.back().partial());
    }

    // Draft tokens behind the last known token of an entry. REQUIRES: it samples; it has blocks for
    // them; entries get drafts in their order, and no entry is dropped afterwards.
    void add_drafts(size_t entry, DraftTokens&& tokens, bool is_forced = false);
    // The worker is asked for so many drafts of the sequence's next entry. REQUIRES: it samples; no
    // entry is dropped afterwards.
    void ask_for_drafts(size_t entry, int32_t count);

    // A preempted sequence leaves the plan, if it is in it: a victim may have been planned in this
    // step, because it computes more than one token or is a beam that was admitted.
    void drop_entry(ScheduledSequence& scheduled);

    BatchPlan plan;
    std::vector<PlannedEntry> entries;  // those of the plan
    std::vector<PlannedDrafts> drafts;
    TokenBudget budget;
    std::optional<SequenceId> alone;  // see PlanLimits
    // A running sequence was refused blocks: no waiting one is admitted.
    bool short_of_blocks = false;
};

}  // namespace nvllm
