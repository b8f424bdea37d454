// How the scheduler makes a plan.
#include <algorithm>
#include <utility>

#include "lib/schedule/preemption.h"
#include "lib/schedule/scheduler.h"

namespace nvllm {
namespace {

// All a worker needs to know of a sequence but its blocks.
AddedSequence describe(const ScheduledSequence& scheduled) {
    const Sequence& sequence = scheduled.sequence;
    const Request& request = scheduled.request->request;
    return {.sequence = sequence.id,
            .token_ids = sequence.token_ids,
            .num_prompt_tokens = sequence.num_prompt_tokens,
            .sampling = request.sampling,
            .pooling = request.pooling,
            .eos_token_ids = request.eos_token_ids,
            .index = sequence.index,
            .rope_choice = scheduled.request->rope_choice,
            .block_tables = {}};
}

}  // namespace

Scheduler::PlanBuilder::PlanBuilder(const SchedulerConfig& config, int32_t most_tokens)
    : budget(config, most_tokens) {
    plan.entries.reserve(config.max_num_seqs);
    entries.reserve(config.max_num_seqs);
}

std::optional<BatchPlan> Scheduler::next(double now_s) {
    forget_retired();
    now_s_ = now_s;
    end_leases(now_s);
    if (!may_plan_now()) return std::nullopt;
    pause_held();
    if (!has_work() && !has_moves()) return std::nullopt;
    move_blocks_together();
    waiting_.sort(now_s_);
    if (!limits_.alone) pause_for_waiting();
    resume_paused(true);
    PlanBuilder builder = begin_plan();
    if (builder.entries.empty() && limits_ != PlanLimits{}) {
        limits_ = {};
        builder = begin_plan();
    }
    return finalize(builder);
}

bool Scheduler::may_plan_now() const {
    if (num_in_flight() >= config_.pipeline_depth) return false;
    return in_flight_.empty() || !config_.may_plan_ahead || in_flight_.back().lets_plan_ahead;
}

// False when the next plan has to wait for what this entry brings. A sequence that ends by its
// length is not planned again.
bool Scheduler::expect_token(const PlannedEntry& entry) {
    const SamplingParams& sampling = entry.sequence->request->request.sampling;
    if (entry.partial()) return !sampling.prompt_logprobs;
    if (entry.output != OutputKind::sample) return false;
    Sequence& sequence = entry.sequence->sequence;
    if (sequence.num_tokens() + sequence.num_expected + 1 >= sequence.longest_length) return true;
    if (!config_.may_plan_ahead(sampling)) return false;
    sequence.expect();
    return true;
}

Scheduler::PlanBuilder Scheduler::begin_plan() {
    PlanBuilder builder(config_,
                        std::min(step_time_.budget(), limits_.most_tokens.value_or(INT32_MAX)));
    plan_running(builder);
    if (!builder.short_of_blocks) {
        admit_waiting(builder);
        resume_paused(false);
    }
    // Nobody ran, and no newcomer found enough blocks: the paused ones have them.
    if (builder.entries.empty()) plan_running(builder);
    return builder;
}

// Slots for those that wait, from those that the policy has give them up.
void Scheduler::pause_for_waiting() {
    if (policy_.pauses_for == nullptr) return;
    std::vector<ScheduledSequence*> paused;
    int32_t num_free = num_free_slots();
    for (const ScheduledSequence* waiting : waiting_.all()) {
        if (!ready(*waiting)) continue;
        if (num_free > 0) {
            --num_free;
            continue;
        }
        ScheduledSequence* last = last_to_pause_for(*waiting);
        if (last == nullptr) break;
        last->disconnect_reason = DisconnectReason::pause;
        if (last->num_plans == 0) paused.push_back(last);
    }
    for (ScheduledSequence* sequence : paused) depart(*sequence);
    leave_running();
}

// Of the running sequences that pause for this one, the one that ranks last.
ScheduledSequence* Scheduler::last_to_pause_for(const ScheduledSequence& waiting) const {
    ScheduledSequence* last = nullptr;
    for (ScheduledSequence* candidate : running_) {
        const Sequence& sequence = candidate->sequence;
        // A beam's slot is its group's until the search is over.
        if (candidate->request->beams != nullptr) continue;
        if (!can_be_planned(*candidate) || sequence.has_turn) continue;
        if (!policy_.pauses_for(sequence, waiting.sequence, now_s_)) continue;
        if (last == nullptr || ranks_before(policy_, last->sequence, sequence, now_s_)) {
            last = candidate;
        }
    }
    return last;
}

// Paused sequences go on in free slots; with `before_admission` only those that stand before all
// who want to come in.
void Scheduler::resume_paused(bool before_admission) {
    if (!queue_may_hold_blocks()) return;
    int32_t num_free = num_free_slots();
    size_t place = 0;
    while (place < waiting_.size() && num_free > 0) {
        ScheduledSequence& scheduled = waiting_[place];
        const bool is_held = scheduled.request->is_held;
        if (scheduled.sequence.state == SequenceState::paused && !is_held) {
            --num_free;
            waiting_.remove_at(place);
            scheduled.sequence.resume(now_s_);
            running_.push_back(&scheduled);
        } else if (before_admission && ready(scheduled)) {
            return;
        } else {
            ++place;
        }
    }
}

// Those with one token to compute first, then the others in the order of the policy. When blocks
// may run out, the first go in that order too: nobody is planned before those it gives way to.
void Scheduler::plan_running(PlanBuilder& builder) {
    ordered_.clear();
    const bool may_run_out = cache_.num_available() < std::ssize(running_);
    for (ScheduledSequence* scheduled : running_) {
        const int32_t num_unplanned = scheduled->sequence.num_unplanned();
        if (num_unplanned == 0 || !can_be_planned(*scheduled)) continue;
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
        return ranks_before(policy_, one->sequence, other->sequence, now_s_);
    });
    for (ScheduledSequence* scheduled : ordered_) {
        if (can_be_planned(*scheduled)) plan_sequence(builder, *scheduled);
    }
    leave_running();
}

void Scheduler::plan_sequence(PlanBuilder& builder, ScheduledSequence& scheduled) {
    const Sequence& sequence = scheduled.sequence;
    const int32_t count = builder.budget.grant(sequence.num_unplanned());
    if (count == 0) return;
    if (scheduled.request->beams != nullptr && !make_private(builder, scheduled)) return;
    std::vector<std::vector<BlockId>> new_blocks;
    while (!cache_.allocate(scheduled.cache, sequence.num_planned() + count, new_blocks)) {
        if (!take_victim(builder, scheduled)) return;
    }
    if (!scheduled.told) {
        tell(builder, scheduled, scheduled.cache.block_tables());
        new_blocks.clear();
    }
    add_entry(builder, scheduled, count, std::move(new_blocks));
}

// A newcomer, a beam that was forked since the last plan, or a sequence that comes back from host
// memory or was begun elsewhere: the worker learns of it with the blocks that hold something.
void Scheduler::tell(PlanBuilder& builder, ScheduledSequence& scheduled,
                     std::vector<std::vector<BlockId>> block_tables) {
    AddedSequence& added = builder.plan.added.emplace_back(describe(scheduled));
    added.block_tables = std::move(block_tables);
    scheduled.told = true;
    scheduled.untold_tokens.clear();
}

// Somebody gave up blocks at once; false when nobody did, or will only when a plan is committed.
bool Scheduler::take_victim(PlanBuilder& builder, const ScheduledSequence& requester) {
    builder.short_of_blocks = true;
    // Blocks are on their way back already.
    if (cache_.parts().deferred.has_blocks()) return false;
    ScheduledSequence* victim =
        choose_victim(running_, waiting_.all(), &requester, policy_, now_s_);
    if (victim == nullptr) return false;
    if (victim->num_plans > 0) {
        victim->disconnect_reason = DisconnectReason::preemption;
        return false;
    }
    drop_entry(builder, *victim);
    preempt(*victim);
    return true;
}

// A victim may have been planned in this very step: by one with more than a token to compute, or a
// beam that comes in.
void Scheduler::drop_entry(PlanBuilder& builder, ScheduledSequence& scheduled) {
    const auto is_victim = [&](const AddedSequence& added) {
        return added.sequence == scheduled.sequence.id;
    };
    if (std::erase_if(builder.plan.added, is_victim) > 0) scheduled.told = false;
    for (size_t i = 0; i < builder.entries.size(); ++i) {
        if (builder.entries[i].sequence != &scheduled) continue;
        scheduled.sequence.take_back(builder.entries[i].count);
        builder.budget.give_back(builder.entries[i].count, builder.entries[i].partial());
        builder.entries.erase(builder.entries.begin() + static_cast<long>(i));
        builder.plan.entries.erase(builder.plan.entries.begin() + static_cast<long>(i));
        return;
    }
}

void Scheduler::add_entry(PlanBuilder& builder, ScheduledSequence& scheduled, int32_t count,
                          std::vector<std::vector<BlockId>>&& new_blocks) {
    Sequence& sequence = scheduled.sequence;
    PlanEntry& entry = builder.plan.entries.emplace_back();
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
    if (!scheduled.untold_tokens.empty()) entry.new_token_ids.swap(scheduled.untold_tokens);
    builder.entries.push_back({&scheduled, count, entry.output});
    builder.budget.spend(count, builder.entries.back().partial());
}

std::optional<BatchPlan> Scheduler::finalize(PlanBuilder& builder) {
    if (builder.entries.empty() && !has_moves()) {
        // Whoever needs blocks that are lent has them when the lease ends.
        if (in_flight_.empty() && leased_.empty()) ++counters_.stalled_steps;
        return std::nullopt;
    }
    builder.plan.number = next_plan_++;
    builder.plan.removed = std::exchange(removed_, {});
    builder.plan.swaps_out = std::exchange(swaps_out_, {});
    builder.plan.copies = std::exchange(copies_, {});
    builder.plan.moves = std::exchange(moves_, {});
    builder.plan.num_blocks = std::exchange(num_blocks_, {});
    builder.plan.table_changes = std::exchange(table_changes_, {});
    // Of sequences that have left since, the worker knows nothing any more.
    std::erase_if(builder.plan.table_changes, [&](const TableChange& change) {
        return std::ranges::find(builder.plan.removed, change.owner) != builder.plan.removed.end();
    });
    for (const PlannedEntry& entry : builder.entries) {
        ++entry.sequence->num_plans;
        cache_.name_in_plan(entry.sequence->cache, builder.plan.number);
        counters_.scheduled_tokens += entry.count;
        counters_.prefill_tokens += is_prefill(entry.count, entry.output) ? entry.count : 0;
    }
    budget_was_spent_ = builder.budget.spent();
    ++counters_.steps;
    counters_.filled_slots += static_cast<int64_t>(builder.entries.size());
    InFlight& finalized =
        in_flight_.emplace_back(InFlight{builder.plan.number, std::move(builder.entries)});
    if (!config_.may_plan_ahead || config_.pipeline_depth == 1) return std::move(builder.plan);
    for (const PlannedEntry& entry : finalized.entries) {
        if (!expect_token(entry)) finalized.lets_plan_ahead = false;
    }
    return std::move(builder.plan);
}

}  // namespace nvllm
