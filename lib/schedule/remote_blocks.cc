// Sequences whose first tokens are computed elsewhere: their blocks are lent until a deadline, and
// what has not come by then is computed here.
#include <algorithm>

#include "lib/schedule/scheduler.h"

namespace nvllm {

// Beams come in by their group's slots, and a prompt whose logprobs are wanted is computed here.
bool Scheduler::may_await_blocks(const ScheduledSequence& scheduled) const {
    return scheduled.sequence.state == SequenceState::waiting && ready(scheduled) &&
           scheduled.request->beams == nullptr && may_skip_prompt(scheduled);
}

std::optional<RemoteLease> Scheduler::await_remote_blocks(SequenceId id, int32_t num_tokens,
                                                          double deadline_s, double now_s) {
    now_s_ = now_s;
    ScheduledSequence* scheduled = lookup(id);
    if (scheduled == nullptr || !may_await_blocks(*scheduled)) return std::nullopt;
    // The content comes outside of any plan: it waits for nobody.
    if (!blocks_are_at_rest()) return std::nullopt;
    Sequence& sequence = scheduled->sequence;
    SequenceBlocks& cache = scheduled->cache;
    const PrefixMatch match = cache_.match(cache, sequence.token_ids);
    const int32_t num_covered = std::min(num_tokens, sequence.num_tokens() - 1);
    if (match.num_tokens >= num_covered) return std::nullopt;
    if (!cache_.admit(cache, match, sequence.num_tokens(), config_.largest_step(), num_growing())) {
        return std::nullopt;
    }
    std::vector<std::vector<BlockId>> more;  // where only a window's worth was taken
    if (!cache_.allocate(cache, num_covered, more)) {
        wait_without_blocks(*scheduled);
        return std::nullopt;
    }
    sequence.await_blocks(now_s_);
    scheduled->lease_end_s = deadline_s;
    leased_.push_back(scheduled);
    ++counters_.remote_waits;
    return RemoteLease{match.num_tokens, num_covered, cache.block_tables()};
}

bool Scheduler::remote_blocks_arrived(SequenceId id, int32_t num_tokens, double now_s) {
    now_s_ = now_s;
    ScheduledSequence* scheduled = lookup(id);
    if (scheduled == nullptr || !scheduled->lease_end_s) return false;
    Sequence& sequence = scheduled->sequence;
    const int32_t num_found = scheduled->cache.num_cached_blocks() * cache_.block_size();
    const int32_t num_computed = std::clamp(num_tokens, num_found, sequence.num_tokens() - 1);
    // A policy may rank it by what is left to compute.
    waiting_.remove(*scheduled);
    end_lease(*scheduled);
    sequence.receive_blocks(num_computed, now_s_);
    waiting_.add(*scheduled, now_s_);
    cache_.commit(scheduled->cache, sequence.token_ids, num_computed);
    if (num_computed >= sequence.num_prompt_tokens) scheduled->request->prompt_computed = true;
    counters_.remote_tokens += num_computed - num_found;
    return true;
}

void Scheduler::end_lease(ScheduledSequence& scheduled) {
    if (!scheduled.lease_end_s) return;
    scheduled.lease_end_s.reset();
    std::erase(leased_, &scheduled);
}

void Scheduler::end_leases(double until_s) {
    const std::vector<ScheduledSequence*> leased = leased_;
    for (ScheduledSequence* scheduled : leased) {
        if (*scheduled->lease_end_s > until_s) continue;
        end_lease(*scheduled);
        scheduled->sequence.withdraw(now_s_);
        wait_without_blocks(*scheduled);
        ++counters_.remote_expiries;
    }
}

void Scheduler::wait_without_blocks(ScheduledSequence& scheduled) {
    cache_.free(scheduled.cache);
    cache_.set_reuse_hint(scheduled.cache, scheduled.sequence.token_ids);
}

}  // namespace nvllm
