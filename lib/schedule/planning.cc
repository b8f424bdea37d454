// How the scheduler makes a plan.
#include <algorithm>
#include <utility>

#include "kernels/error.h"
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
            .block_tables = {}};
}

}  // namespace

Scheduler::Draft::Draft(const SchedulerConfig& config, int32_t most_tokens)
    : budget(config, most_tokens) {
    plan.entries.reserve(config.max_num_seqs);
    entries.reserve(config.max_num_seqs);
}

std::optional<BatchPlan> Scheduler::next(double now_s) {
    forget_retired();
    now_s_ = now_s;
    end_leases(now_s);
    if (num_in_flight() >= config_.pipeline_depth) return std::nullopt;
    pause_held();
    if (!has_work() && !has_moves()) return std::nullopt;
    move_blocks_together();
    waiting_.sort(now_s_);
    if (!limits_.alone) pause_for_waiting();
    resume_paused(true);
    Draft draft = draft_plan();
    if (draft.entries.empty() && limits_ != PlanLimits{}) {
        limits_ = {};
        draft = draft_plan();
    }
    return seal(draft);
}

Scheduler::Draft Scheduler::draft_plan() {
    Draft draft(config_, std::min(step_time_.budget(), limits_.most_tokens.value_or(INT32_MAX)));
    plan_running(draft);
    if (!draft.short_of_blocks) {
        admit_waiting(draft);
        resume_paused(false);
    }
    // Nobody ran, and no newcomer found enough blocks: the paused ones have them.
    if (draft.entries.empty()) plan_running(draft);
    return draft;
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
        last->departure = Departure::pause;
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

// Paused sequences go on in free slots; with `before_newcomers` only those that stand before all
// who want to come in.
void Scheduler::resume_paused(bool before_newcomers) {
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
        } else if (before_newcomers && ready(scheduled)) {
            return;
        } else {
            ++place;
        }
    }
}

// Those with one token to compute first, then the others in the order of the policy. When blocks
// may run out, the first go in that order too: nobody is planned before those it gives way to.
void Scheduler::plan_running(Draft& draft) {
    ordered_.clear();
    const bool may_run_out = cache_.num_available() < std::ssize(running_);
    for (ScheduledSequence* scheduled : running_) {
        const int32_t num_unplanned = scheduled->sequence.num_unplanned();
        if (num_unplanned == 0 || !can_be_planned(*scheduled)) continue;
        if (num_unplanned == 1 && !may_run_out) {
            plan_sequence(draft, *scheduled);
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
        if (can_be_planned(*scheduled)) plan_sequence(draft, *scheduled);
    }
    leave_running();
}

void Scheduler::plan_sequence(Draft& draft, ScheduledSequence& scheduled) {
    const Sequence& sequence = scheduled.sequence;
    const int32_t count = draft.budget.grant(sequence.num_unplanned());
    if (count == 0) return;
    if (scheduled.request->beams != nullptr && !make_private(draft, scheduled)) return;
    std::vector<std::vector<BlockId>> new_blocks;
    while (!cache_.allocate(scheduled.cache, sequence.num_planned() + count, new_blocks)) {
        if (!take_victim(draft, scheduled)) return;
    }
    if (!scheduled.told) {
        tell(draft, scheduled);
        new_blocks.clear();
    }
    add_entry(draft, scheduled, count, std::move(new_blocks));
}

// A beam that was forked since the last plan, or a sequence that comes back from host memory or was
// begun elsewhere: the worker learns of it with all its blocks.
void Scheduler::tell(Draft& draft, ScheduledSequence& scheduled) {
    AddedSequence& added = draft.plan.added.emplace_back(describe(scheduled));
    added.block_tables = scheduled.cache.block_tables();
    scheduled.told = true;
    scheduled.untold_tokens.clear();
}

// Somebody gave up blocks at once; false when nobody did, or will only when a plan is committed.
bool Scheduler::take_victim(Draft& draft, const ScheduledSequence& needy) {
    draft.short_of_blocks = true;
    // Blocks are on their way back already.
    if (cache_.awaits_commit()) return false;
    ScheduledSequence* victim = choose_victim(running_, waiting_.all(), &needy, policy_, now_s_);
    if (victim == nullptr) return false;
    if (victim->num_plans > 0) {
        victim->departure = Departure::preemption;
        return false;
    }
    drop_entry(draft, *victim);
    preempt(*victim);
    return true;
}

// A victim may have been planned in this very step: by one with more than a token to compute, or a
// beam that comes in.
void Scheduler::drop_entry(Draft& draft, ScheduledSequence& scheduled) {
    const auto is_victim = [&](const AddedSequence& added) {
        return added.sequence == scheduled.sequence.id;
    };
    if (std::erase_if(draft.plan.added, is_victim) > 0) scheduled.told = false;
    for (size_t i = 0; i < draft.entries.size(); ++i) {
        if (draft.entries[i].sequence != &scheduled) continue;
        scheduled.sequence.take_back(draft.entries[i].count);
        draft.budget.give_back(draft.entries[i].count, draft.entries[i].partial());
        draft.entries.erase(draft.entries.begin() + static_cast<long>(i));
        draft.plan.entries.erase(draft.plan.entries.begin() + static_cast<long>(i));
        return;
    }
}

void Scheduler::admit_waiting(Draft& draft) {
    if (waiting_.empty()) return;
    // One block for each sequence that will want another, or what comes in would be preempted right
    // away.
    int32_t headroom = num_growing();
    size_t from = 0;
    int32_t num_free = num_free_slots();
    while (!draft.budget.spent()) {
        const bool oldest = is_turn_of_oldest();
        const auto place = next_newcomer(from, oldest);
        if (!place) return;
        ScheduledSequence& scheduled = waiting_[*place];
        const int32_t num_slots = slots_to_take(scheduled);
        if (num_slots > num_free) return;
        // Nobody passes one that waits for blocks: it would wait for ever.
        bool made_way = false;
        while (!let_in(draft, scheduled, headroom)) {
            if (!makes_way(draft, scheduled)) return;
            made_way = true;
            headroom = num_growing();
        }
        num_free -= num_slots;
        if (scheduled.request->beams != nullptr) scheduled.request->beams->has_slots = true;
        scheduled.sequence.has_turn = oldest;
        counters_.turns_of_oldest += oldest ? 1 : 0;
        admitted_since_turn_ = oldest ? 0 : admitted_since_turn_ + 1;
        // Not by its place: somebody who made way may have come to stand before it.
        waiting_.remove(scheduled);
        running_.push_back(&scheduled);
        headroom += may_grow(scheduled) ? 1 : 0;
        from = oldest || made_way ? 0 : *place;
    }
}

// A group of beams has all its slots from when the first comes in: beams that waited for each
// other's slots would wait for ever.
int32_t Scheduler::slots_to_take(const ScheduledSequence& scheduled) const {
    const BeamGroup* beams = scheduled.request->beams.get();
    if (beams == nullptr) return 1;
    return beams->has_slots ? 0 : scheduled.request->request.sampling.num_sequences();
}

int32_t Scheduler::num_free_slots() const {
    int32_t taken = 0;
    for (const ScheduledSequence* scheduled : running_)
        taken += scheduled->request->beams == nullptr;
    for (const ScheduledRequest* request : searching_) {
        taken += request->beams->has_slots ? request->request.sampling.num_sequences() : 0;
    }
    return config_.max_num_seqs - taken;
}

bool Scheduler::is_turn_of_oldest() const {
    return policy_.passes_without_end && admitted_since_turn_ + 1 >= kTurnOfOldest;
}

// The place of the next that wants to come in: the first from `from` on, or the oldest of all.
std::optional<size_t> Scheduler::next_newcomer(size_t from, bool oldest) const {
    std::optional<size_t> found;
    for (size_t place = oldest ? 0 : from; place < waiting_.size(); ++place) {
        const ScheduledSequence& scheduled = waiting_[place];
        if (scheduled.sequence.state == SequenceState::paused || !ready(scheduled)) continue;
        if (is_left_out(scheduled)) continue;
        if (!oldest) return place;
        if (!found || scheduled.sequence.id < waiting_[*found].sequence.id) found = place;
    }
    return found;
}

bool Scheduler::ready(const ScheduledSequence& scheduled) const {
    const ScheduledRequest& request = *scheduled.request;
    if (scheduled.lease_end_s || request.is_held) return false;
    if (request.beams != nullptr) return true;
    if (!cache_.prefix_caching() || request.prompt_computed) return true;
    // A prompt that fills no block leaves nothing to share.
    if (scheduled.sequence.num_prompt_tokens <= cache_.block_size()) return true;
    return request.leader == scheduled.sequence.id;
}

// Whether tokens of its prompt need not be computed when their keys and values are at hand: not
// when the prompt's logprobs are wanted and have not come out yet, or its early hidden states.
bool Scheduler::may_skip_prompt(const ScheduledSequence& scheduled) const {
    const ScheduledRequest& request = *scheduled.request;
    if (reads_early_positions(scheduled)) return false;
    return !request.request.sampling.prompt_logprobs || scheduled.sequence.index != 0 ||
           request.prompt_computed;
}

bool Scheduler::reads_early_positions(const ScheduledSequence& scheduled) {
    const std::optional<PoolingParams>& pooling = scheduled.request->request.pooling;
    return pooling && pooling->reads_early_positions();
}

// Those that are held make way for all who want to come in. A beam whose siblings hold blocks and
// wait for it comes in at the cost of others: two groups that waited for each other would wait for
// ever.
bool Scheduler::makes_way(Draft& draft, const ScheduledSequence& scheduled) {
    ScheduledSequence* held = draft.budget.spent() ? nullptr : last_held();
    if (held != nullptr) {
        preempt(*held);
        return true;
    }
    if (scheduled.request->beams == nullptr || scheduled.request->beams->beams.size() < 2) {
        return false;
    }
    return !draft.budget.spent() && take_victim(draft, scheduled);
}

bool Scheduler::let_in(Draft& draft, ScheduledSequence& scheduled, int32_t headroom) {
    return scheduled.sequence.state == SequenceState::swapped ? swap_in(draft, scheduled, headroom)
                                                              : admit(draft, scheduled, headroom);
}

// Goes on where it was, with blocks for the tokens of this step.
bool Scheduler::swap_in(Draft& draft, ScheduledSequence& scheduled, int32_t headroom) {
    Sequence& sequence = scheduled.sequence;
    const int32_t count = draft.budget.grant(sequence.num_unplanned());
    if (count == 0) return false;
    const int32_t more = cache_.num_blocks_for(sequence.num_computed + count) -
                         cache_.num_blocks_for(sequence.num_computed);
    if (!cache_.swap_in(scheduled.cache, headroom + more, draft.plan.swaps_in)) return false;
    sequence.swap_in(now_s_);
    ++counters_.swaps_in;
    tell(draft, scheduled);
    std::vector<std::vector<BlockId>> new_blocks;
    const bool allocated =
        cache_.allocate(scheduled.cache, sequence.num_planned() + count, new_blocks);
    NVLLM_CHECK(allocated, "blocks were left over for this");
    add_entry(draft, scheduled, count, std::move(new_blocks));
    return true;
}

bool Scheduler::admit(Draft& draft, ScheduledSequence& scheduled, int32_t headroom) {
    Sequence& sequence = scheduled.sequence;
    const PrefixMatch match = may_skip_prompt(scheduled)
                                  ? cache_.match(scheduled.cache, sequence.token_ids)
                                  : PrefixMatch{};
    const int32_t count = draft.budget.grant(sequence.num_tokens() - match.num_tokens);
    if (count == 0) return false;
    if (!cache_.admit(scheduled.cache, match, sequence.num_tokens(), config_.largest_step(),
                      headroom)) {
        return false;
    }
    sequence.start(match.num_tokens, now_s_);
    counters_.recomputed_tokens +=
        std::max(0, std::exchange(scheduled.num_computed_before, 0) - match.num_tokens);
    scheduled.told = true;
    scheduled.untold_tokens.clear();
    scheduled.candidates.clear();
    AddedSequence& added = draft.plan.added.emplace_back(describe(scheduled));
    std::vector<std::vector<BlockId>> new_blocks;
    const auto num_matched = static_cast<long>(match.contents.size());
    for (int32_t group = 0; group < cache_.num_groups(); ++group) {
        const std::vector<BlockId>& blocks = scheduled.cache.table(group).blocks();
        added.block_tables.emplace_back(blocks.begin(), blocks.begin() + num_matched);
        new_blocks.emplace_back(blocks.begin() + num_matched, blocks.end());
    }
    add_entry(draft, scheduled, count, std::move(new_blocks));
    return true;
}

void Scheduler::add_entry(Draft& draft, ScheduledSequence& scheduled, int32_t count,
                          std::vector<std::vector<BlockId>>&& new_blocks) {
    Sequence& sequence = scheduled.sequence;
    PlanEntry& entry = draft.plan.entries.emplace_back();
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
    draft.entries.push_back({&scheduled, count, entry.output});
    draft.budget.spend(count, draft.entries.back().partial());
}

int32_t Scheduler::num_growing() const {
    const auto grows = [this](const ScheduledSequence* scheduled) {
        return !scheduled->cache.empty() && may_grow(*scheduled);
    };
    auto count = std::ranges::count_if(running_, grows);
    if (queue_may_hold_blocks()) count += std::ranges::count_if(waiting_.all(), grows);
    return static_cast<int32_t>(count);
}

// Whether its answer can become longer than the blocks it has.
bool Scheduler::may_grow(const ScheduledSequence& scheduled) const {
    const int32_t num_positions = scheduled.sequence.longest_length - 1;
    return num_positions > scheduled.cache.table(0).size() * cache_.block_size();
}

std::optional<BatchPlan> Scheduler::seal(Draft& draft) {
    if (draft.entries.empty() && !has_moves()) {
        // Whoever needs blocks that are lent has them when the lease ends.
        if (in_flight_.empty() && leased_.empty()) ++counters_.stalled_steps;
        return std::nullopt;
    }
    draft.plan.number = next_plan_++;
    draft.plan.removed = std::exchange(removed_, {});
    draft.plan.swaps_out = std::exchange(swaps_out_, {});
    draft.plan.copies = std::exchange(copies_, {});
    draft.plan.moves = std::exchange(moves_, {});
    draft.plan.num_blocks = std::exchange(num_blocks_, {});
    draft.plan.table_changes = std::exchange(table_changes_, {});
    // Of sequences that have left since, the worker knows nothing any more.
    std::erase_if(draft.plan.table_changes, [&](const TableChange& change) {
        return std::ranges::find(draft.plan.removed, change.owner) != draft.plan.removed.end();
    });
    for (const PlannedEntry& entry : draft.entries) {
        ++entry.sequence->num_plans;
        cache_.name_in_plan(entry.sequence->cache, draft.plan.number);
        counters_.scheduled_tokens += entry.count;
        counters_.prefill_tokens += is_prefill(entry.count, entry.output) ? entry.count : 0;
    }
    budget_was_spent_ = draft.budget.spent();
    ++counters_.steps;
    counters_.filled_slots += static_cast<int64_t>(draft.entries.size());
    in_flight_.push_back({draft.plan.number, std::move(draft.entries)});
    return std::move(draft.plan);
}

}  // namespace nvllm
