// Who comes in while a plan is made: newcomers, and those that were swapped out.
#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "lib/schedule/scheduler.h"

namespace nvllm {

void Scheduler::admit_waiting(PlanBuilder& builder) {
    if (waiting_.empty()) return;
    // One block for each sequence that will want another, or what comes in would be preempted right
    // away.
    int32_t headroom = num_growing();
    size_t from = 0;
    int32_t num_free = num_free_slots();
    while (builder.budget.may_prefill()) {
        const bool oldest = is_turn_of_oldest();
        const auto place = next_waiting(from, oldest);
        if (!place) return;
        ScheduledSequence& scheduled = waiting_[*place];
        const int32_t num_slots = slots_to_take(scheduled);
        if (num_slots > num_free) return;
        // Nobody passes one that waits for blocks: it would wait for ever.
        bool made_way = false;
        while (!try_admit(builder, scheduled, headroom)) {
            if (!preempt_for(builder, scheduled)) return;
            made_way = true;
            headroom = num_growing();
        }
        num_free -= num_slots;
        take_slot(scheduled, oldest);
        headroom += may_grow(scheduled) ? 1 : 0;
        from = oldest || made_way ? 0 : *place;
    }
}

void Scheduler::take_slot(ScheduledSequence& scheduled, bool oldest) {
    if (scheduled.request->beams != nullptr) scheduled.request->beams->has_slots = true;
    scheduled.sequence.has_turn = oldest;
    counters_.turns_of_oldest += oldest ? 1 : 0;
    admitted_since_turn_ = oldest ? 0 : admitted_since_turn_ + 1;
    // Not by its place: somebody who made way may have come to stand before it.
    waiting_.remove(scheduled);
    running_.push_back(&scheduled);
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
std::optional<size_t> Scheduler::next_waiting(size_t from, bool oldest) const {
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
    if (!cache_.parts().prefix_cache.enabled() || request.prompt_computed) return true;
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
bool Scheduler::preempt_for(PlanBuilder& builder, const ScheduledSequence& scheduled) {
    ScheduledSequence* held = builder.budget.may_prefill() ? last_held() : nullptr;
    if (held != nullptr) {
        preempt(*held);
        return true;
    }
    if (scheduled.request->beams == nullptr || scheduled.request->beams->beams.size() < 2) {
        return false;
    }
    return builder.budget.may_prefill() && take_victim(builder, scheduled);
}

bool Scheduler::try_admit(PlanBuilder& builder, ScheduledSequence& scheduled, int32_t headroom) {
    return scheduled.sequence.state == SequenceState::swapped
               ? swap_in(builder, scheduled, headroom)
               : admit(builder, scheduled, headroom);
}

// Goes on where it was, with blocks for the tokens of this step.
bool Scheduler::swap_in(PlanBuilder& builder, ScheduledSequence& scheduled, int32_t headroom) {
    Sequence& sequence = scheduled.sequence;
    const int32_t count = builder.budget.grant(sequence.num_unplanned());
    if (count == 0) return false;
    const int32_t more = cache_.shape().num_blocks_for(sequence.num_computed + count) -
                         cache_.shape().num_blocks_for(sequence.num_computed);
    if (!cache_.swap_in(scheduled.cache, headroom + more, builder.plan.swaps_in)) return false;
    sequence.swap_in(now_s_);
    ++counters_.swaps_in;
    tell(builder, scheduled, scheduled.cache.block_tables());
    std::vector<std::vector<BlockId>> new_blocks;
    const bool allocated =
        cache_.allocate(scheduled.cache, sequence.num_planned() + count, new_blocks);
    NVLLM_CHECK(allocated, "blocks were left over for this");
    add_entry(builder, scheduled, count, std::move(new_blocks));
    return true;
}

bool Scheduler::admit(PlanBuilder& builder, ScheduledSequence& scheduled, int32_t headroom) {
    Sequence& sequence = scheduled.sequence;
    const PrefixMatch match = may_skip_prompt(scheduled)
                                  ? cache_.match(scheduled.cache, sequence.token_ids)
                                  : PrefixMatch{};
    const int32_t count = builder.budget.grant(sequence.num_tokens() - match.num_tokens);
    if (count == 0) return false;
    if (!cache_.admit(scheduled.cache, match, sequence.num_tokens(), config_.largest_step(),
                      headroom)) {
        return false;
    }
    sequence.start(match.num_tokens, now_s_);
    counters_.recomputed_tokens +=
        std::max(0, std::exchange(scheduled.num_computed_before, 0) - match.num_tokens);
    scheduled.candidates.clear();
    std::vector<std::vector<BlockId>> matched_blocks;
    std::vector<std::vector<BlockId>> new_blocks;
    const auto num_matched = static_cast<long>(match.contents.size());
    for (int32_t group = 0; group < cache_.num_groups(); ++group) {
        const std::vector<BlockId>& blocks = scheduled.cache.table(group).blocks();
        matched_blocks.emplace_back(blocks.begin(), blocks.begin() + num_matched);
        new_blocks.emplace_back(blocks.begin() + num_matched, blocks.end());
    }
    tell(builder, scheduled, std::move(matched_blocks));
    add_entry(builder, scheduled, count, std::move(new_blocks));
    return true;
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

}  // namespace nvllm
