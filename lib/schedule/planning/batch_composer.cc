// Composition of plans.
#include "lib/schedule/planning/batch_composer.h"

#include <algorithm>
#include <utility>

#include "lib/schedule/planning/admission_rules.h"
#include "lib/schedule/planning/answer_masks.h"
#include "lib/schedule/planning/checkpoints.h"

namespace nvllm {
namespace {

// Of the waiting sequences, those for which files are read.
constexpr size_t kMostLookedAt = 32;
// Blocks that a plan begins to write: each is copied to host memory before the step.
constexpr int32_t kWritesBesideSteps = 8;
constexpr int32_t kWritesAlone = 64;
// A sequence waits no longer for a disk that does not answer.
constexpr double kLongestReadS = 5.0;

}  // namespace

bool BatchComposer::may_plan() const {
    const SchedulerConfig& config = context_.config;
    if (plans_.size() >= config.pipeline_depth) return false;
    return plans_.empty() || !config.may_plan_ahead || plans_.newest().lets_plan_ahead;
}

std::optional<BatchPlan> BatchComposer::compose(int32_t token_budget, const PlanLimits& limits) {
    context_.adapters.plan(waiting_, running_, plans_, update_.adapters);
    DiskTier& disk = context_.cache.disk_tier();
    disk.begin_plan(context_.now_s);
    if (disk.enabled()) begin_reads();
    PlanBuilder builder = begin_plan(token_budget, limits);
    // A limit that leaves nothing to plan does not hold.
    if (builder.entries.empty() && limits != PlanLimits{}) builder = begin_plan(token_budget, {});
    disk.plan_writes(builder.entries.empty() ? kWritesAlone : kWritesBesideSteps);
    if (builder.entries.empty()) {
        builder.plan.awaits_adapters = plans_.empty() && context_.adapters.awaits();
        builder.plan.awaits_disk = plans_.empty() && disk.has_moves();
        if (!builder.plan.awaits_adapters && !builder.plan.awaits_disk && !update_.has_moves()) {
            return std::nullopt;
        }
    }
    parts_.drafts.add_drafts(builder);
    add_token_masks(builder);
    return finalize(builder);
}

void BatchComposer::begin_reads() {
    for (size_t i = 0; i < std::min(waiting_.size(), kMostLookedAt); ++i) {
        ScheduledSequence& scheduled = waiting_[i];
        if (scheduled.sequence.state != SequenceState::waiting || !may_skip_prompt(scheduled) ||
            !is_ready(scheduled, context_)) {
            continue;
        }
        if (!context_.cache.begin_reads(scheduled.cache, scheduled.sequence.token_ids)) return;
        scheduled.reads_until_s = context_.now_s + kLongestReadS;
    }
}

PlanBuilder BatchComposer::begin_plan(int32_t token_budget, const PlanLimits& limits) {
    PlanBuilder builder(context_.config, token_budget, limits);
    plan_running(builder);
    if (!builder.short_of_blocks) {
        parts_.admission.admit_waiting(builder);
        parts_.slicer.resume_paused(false);
    }
    // No sequence ran, and no waiting one was admitted: the resumed ones have the blocks.
    if (builder.entries.empty()) plan_running(builder);
    return builder;
}

// Sequences with one token to compute first, then the others in the order of the policy. If blocks
// may run out, the former are planned in that order too: a sequence is planned after all those that
// may preempt it.
void BatchComposer::plan_running(PlanBuilder& builder) {
    ordered_.clear();
    const bool may_run_out = context_.cache.num_available() < running_.size();
    for (ScheduledSequence* scheduled : running_.all()) {
        const int32_t num_unplanned = scheduled->sequence.num_unplanned();
        if (num_unplanned == 0 || !scheduled->can_be_planned()) continue;
        if (builder.leaves_out(*scheduled)) continue;
        if (num_unplanned == 1 && !may_run_out) {
            plan_sequence(builder, *scheduled);
        } else {
            ordered_.push_back(scheduled);
        }
    }
    std::ranges::sort(ordered_, [&](const ScheduledSequence* one, const ScheduledSequence* other) {
        const bool is_prefill = one->sequence.num_unplanned() > 1;
        const bool other_is_prefill = other->sequence.num_unplanned() > 1;
        if (is_prefill != other_is_prefill) return other_is_prefill;
        return ranks_before(context_.policy, one->sequence, other->sequence, context_.now_s);
    });
    for (ScheduledSequence* scheduled : ordered_) {
        if (scheduled->can_be_planned()) plan_sequence(builder, *scheduled);
    }
    running_.remove_left();
}

void BatchComposer::plan_sequence(PlanBuilder& builder, ScheduledSequence& scheduled) {
    const Sequence& sequence = scheduled.sequence;
    const int32_t granted = builder.budget.grant(sequence.num_unplanned());
    if (granted == 0) return;
    const CacheShape& shape = context_.cache.shape();
    const int32_t count =
        count_to_checkpoint(context_.cache, sequence, sequence.num_planned(), granted);
    if ((scheduled.is_beam() || shape.has_states()) &&
        !parts_.beams.copy_on_write(builder, scheduled)) {
        return;
    }
    PlanBuilder::BlockLists new_blocks;
    while (!context_.cache.allocate(scheduled.cache, sequence.num_planned() + count, new_blocks)) {
        if (!parts_.preemptor.reclaim_for(builder, scheduled)) return;
    }
    if (!scheduled.is_registered) {
        builder.register_sequence(scheduled, scheduled.cache.block_tables());
        new_blocks.clear();
    }
    builder.add_entry(scheduled, count, std::move(new_blocks));
}

BatchPlan BatchComposer::finalize(PlanBuilder& builder) {
    builder.plan.number = plans_.next_number();
    update_.move_into(builder.plan);
    context_.cache.take_tier_moves(builder.plan.swaps_out, builder.plan.swaps_in);
    context_.cache.disk_tier().take_moves(builder.plan.disk_reads, builder.plan.disk_writes);
    count(builder);
    PlanInFlight& plan = plans_.add({.number = builder.plan.number,
                                     .entries = std::move(builder.entries),
                                     .drafts = std::move(builder.drafts)});
    const SchedulerConfig& config = context_.config;
    if (!config.may_plan_ahead || config.pipeline_depth == 1) return std::move(builder.plan);
    // Only the result says how many drafts are accepted.
    plan.lets_plan_ahead = plan.drafts.empty();
    if (!plan.lets_plan_ahead) return std::move(builder.plan);
    for (const PlannedEntry& entry : plan.entries) {
        if (!add_placeholder(entry)) plan.lets_plan_ahead = false;
    }
    return std::move(builder.plan);
}

void BatchComposer::count(const PlanBuilder& builder) {
    SchedulerStats& counters = context_.counters;
    for (const PlannedEntry& entry : builder.entries) {
        ++entry.sequence->num_plans;
        context_.cache.name_in_plan(entry.sequence->cache, builder.plan.number);
        counters.scheduled_tokens += entry.count;
        counters.prefill_tokens += is_prefill(entry.count, entry.output) ? entry.count : 0;
    }
    // Verification is decode.
    for (const PlannedDrafts& drafts : builder.drafts) {
        counters.prefill_tokens -= builder.entries[drafts.entry].count;
    }
    budget_was_spent_ = builder.budget.spent();
    ++counters.steps;
    counters.filled_slots += static_cast<int64_t>(builder.entries.size());
}

// The token that the entry chooses may be planned before it is known. False if the next plan must
// wait for the entry's result. A sequence that ends by its length is not planned again.
bool BatchComposer::add_placeholder(const PlannedEntry& entry) const {
    const SamplingParams& sampling = entry.sequence->request->request.sampling;
    if (entry.partial()) return !sampling.prompt_logprobs;
    if (entry.output != OutputKind::sample) return false;
    Sequence& sequence = entry.sequence->sequence;
    if (sequence.num_tokens() + sequence.num_placeholders + 1 >= sequence.longest_length) {
        return true;
    }
    // The mask of the next token depends on this one.
    if (entry.sequence->constraint != nullptr) return false;
    if (!context_.config.may_plan_ahead(sampling)) return false;
    sequence.add_placeholder();
    return true;
}

}  // namespace nvllm
