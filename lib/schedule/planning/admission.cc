// Admission of waiting and swapped sequences.
#include "lib/schedule/planning/admission.h"

#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "lib/schedule/planning/admission_rules.h"
#include "lib/schedule/planning/checkpoints.h"

namespace nvllm {

void Admission::admit_waiting(PlanBuilder& builder) {
    if (waiting_.empty()) return;
    int32_t headroom = num_growing(context_, running_, waiting_);
    size_t from = 0;
    int32_t num_free = running_.num_free_slots();
    while (builder.budget.may_prefill()) {
        const bool oldest = is_aging_due();
        const std::optional<size_t> index = next_waiting(builder, from, oldest);
        if (!index) return;
        ScheduledSequence& scheduled = waiting_[*index];
        const int32_t num_slots = slots_to_take(scheduled);
        if (num_slots > num_free) return;
        bool preempted = false;
        while (!try_admit(builder, scheduled, headroom)) {
            if (!preempt_for(builder, scheduled)) return;
            preempted = true;
            headroom = num_growing(context_, running_, waiting_);
        }
        num_free -= num_slots;
        start_running(scheduled, oldest);
        headroom += may_grow(scheduled, context_.cache) ? 1 : 0;
        from = oldest || preempted ? 0 : *index;
    }
}

void Admission::start_running(ScheduledSequence& scheduled, bool aged) {
    BeamGroup* beams = scheduled.request->beams.get();
    if (beams != nullptr && !std::exchange(beams->has_slots, true)) {
        running_.reserve_slots(scheduled.request->request.sampling.num_sequences());
    }
    scheduled.sequence.is_aged = aged;
    context_.counters.aged_admissions += aged ? 1 : 0;
    context_.adapters.note_admitted();
    admitted_since_aging_ = aged ? 0 : admitted_since_aging_ + 1;
    // Not by its index: a preempted sequence may have been inserted before it.
    waiting_.remove(scheduled);
    running_.add(scheduled);
}

bool Admission::is_aging_due() const {
    return context_.policy.passes_without_end && admitted_since_aging_ + 1 >= kAgingInterval;
}

// The index of the next sequence to admit: the first from `from` on, or the oldest of all.
std::optional<size_t> Admission::next_waiting(const PlanBuilder& builder, size_t from,
                                              bool oldest) const {
    std::optional<size_t> found;
    for (size_t i = oldest ? 0 : from; i < waiting_.size(); ++i) {
        const ScheduledSequence& scheduled = waiting_[i];
        if (scheduled.sequence.state == SequenceState::paused) continue;
        if (!is_ready(scheduled, context_) || builder.leaves_out(scheduled)) continue;
        if (!oldest) return i;
        if (!found || scheduled.sequence.id < waiting_[*found].sequence.id) found = i;
    }
    return found;
}

// Sequences that are paused for their client lose their blocks first. A beam whose other beams hold
// blocks and wait for it may preempt: two groups that waited for each other would wait forever.
bool Admission::preempt_for(PlanBuilder& builder, const ScheduledSequence& scheduled) {
    if (!builder.budget.may_prefill()) return false;
    if (ScheduledSequence* paused = backpressure_.last_with_blocks()) {
        preemptor_.preempt(*paused);
        return true;
    }
    if (!scheduled.is_beam() || scheduled.request->beams->beams.size() < 2) return false;
    return preemptor_.reclaim_for(builder, scheduled);
}

bool Admission::try_admit(PlanBuilder& builder, ScheduledSequence& scheduled, int32_t headroom) {
    return scheduled.sequence.state == SequenceState::swapped
               ? swap_in(builder, scheduled, headroom)
               : admit(builder, scheduled, headroom);
}

// Continues where it was, with blocks for the tokens of this step.
bool Admission::swap_in(PlanBuilder& builder, ScheduledSequence& scheduled, int32_t headroom) {
    CacheManager& cache = context_.cache;
    Sequence& sequence = scheduled.sequence;
    const int32_t count = builder.budget.grant(sequence.num_unplanned());
    if (count == 0) return false;
    const int32_t more = cache.shape().num_blocks_for(sequence.num_computed + count) -
                         cache.shape().num_blocks_for(sequence.num_computed);
    if (!cache.swap_in(scheduled.cache, headroom + more, builder.plan.swaps_in)) return false;
    sequence.swap_in(context_.now_s);
    ++context_.counters.swaps_in;
    builder.register_sequence(scheduled, scheduled.cache.block_tables());
    PlanBuilder::BlockLists new_blocks;
    const bool allocated =
        cache.allocate(scheduled.cache, sequence.num_planned() + count, new_blocks);
    NVLLM_CHECK(allocated, "the headroom left blocks for these tokens");
    builder.add_entry(scheduled, count, std::move(new_blocks));
    return true;
}

bool Admission::admit(PlanBuilder& builder, ScheduledSequence& scheduled, int32_t headroom) {
    CacheManager& cache = context_.cache;
    Sequence& sequence = scheduled.sequence;
    const PrefixMatch match = may_skip_prompt(scheduled)
                                  ? cache.match(scheduled.cache, sequence.token_ids)
                                  : PrefixMatch{};
    const int32_t granted = builder.budget.grant(sequence.num_tokens() - match.num_tokens);
    if (granted == 0) return false;
    const int32_t count = count_to_checkpoint(cache, sequence, match.num_tokens, granted);
    if (!cache.admit(scheduled.cache, match, sequence.num_tokens(), context_.config.largest_step(),
                     headroom)) {
        return false;
    }
    if (!sequence.num_cached_tokens) sequence.num_without_state = match.num_without_state;
    sequence.start(match.num_tokens, context_.now_s);
    context_.counters.recomputed_tokens +=
        std::max(0, std::exchange(scheduled.num_computed_before, 0) - match.num_tokens);
    scheduled.candidates.clear();
    PlanBuilder::BlockLists matched_blocks;
    PlanBuilder::BlockLists new_blocks;
    copy_checkpoint(scheduled);
    for (int32_t group = 0; group < cache.num_groups(); ++group) {
        const std::vector<BlockId>& blocks = scheduled.cache.table(group).blocks();
        const long num_matched =
            cache.shape().is_state(group) ? 0 : static_cast<long>(match.contents.size());
        matched_blocks.emplace_back(blocks.begin(), blocks.begin() + num_matched);
        new_blocks.emplace_back(blocks.begin() + num_matched, blocks.end());
    }
    builder.register_sequence(scheduled, std::move(matched_blocks));
    builder.add_entry(scheduled, count, std::move(new_blocks));
    return true;
}

// The state that was found becomes one of the sequence's own.
void Admission::copy_checkpoint(ScheduledSequence& scheduled) {
    if (!context_.cache.shape().has_states()) return;
    std::vector<TableChange> changes;
    const bool copied = context_.cache.copy_on_write(
        scheduled.cache, scheduled.sequence.num_planned(), update_.copies, changes);
    NVLLM_CHECK(copied && changes.empty(), "an admitted sequence has its slot");
}

}  // namespace nvllm
