// Leases of blocks to a remote source; tokens that do not arrive in time are computed here.
#include "lib/schedule/planning/remote_blocks.h"

#include <algorithm>

#include "lib/schedule/planning/admission_rules.h"

namespace nvllm {

// Beams are admitted with the slots of their group; states are not sent.
bool RemoteBlocks::may_load(const ScheduledSequence& scheduled) const {
    return scheduled.sequence.state == SequenceState::waiting && is_ready(scheduled, context_) &&
           !scheduled.is_beam() && !context_.cache.shape().has_states() &&
           may_skip_prompt(scheduled);
}

std::optional<RemoteLease> RemoteBlocks::load(SequenceId id, int32_t num_tokens, double deadline_s,
                                              double now_s) {
    context_.now_s = now_s;
    ScheduledSequence* scheduled = requests_.find(id);
    if (scheduled == nullptr || !may_load(*scheduled)) return std::nullopt;
    // The source writes outside of any plan: nothing orders it after reads of a freed block.
    if (!no_plans_in_flight()) return std::nullopt;
    CacheManager& cache = context_.cache;
    Sequence& sequence = scheduled->sequence;
    const PrefixMatch match = cache.match(scheduled->cache, sequence.token_ids);
    const int32_t num_covered = std::min(num_tokens, sequence.num_tokens() - 1);
    if (match.num_tokens >= num_covered) return std::nullopt;
    if (!cache.admit(scheduled->cache, match, sequence.num_tokens(), context_.config.largest_step(),
                     num_growing(context_, running_, waiting_))) {
        return std::nullopt;
    }
    std::vector<std::vector<BlockId>> more;  // admit() takes only the blocks of a window
    if (!cache.allocate(scheduled->cache, num_covered, more)) {
        release_to_wait(*scheduled, cache);
        return std::nullopt;
    }
    // The source may write before the next plan would have copied what was there.
    cache.cancel_keeps();
    sequence.await_blocks(now_s);
    scheduled->lease_end_s = deadline_s;
    leased_.push_back(scheduled);
    ++context_.counters.remote_waits;
    return RemoteLease{match.num_tokens, num_covered, scheduled->cache.block_tables()};
}

bool RemoteBlocks::arrived(SequenceId id, int32_t num_tokens, double now_s) {
    context_.now_s = now_s;
    ScheduledSequence* scheduled = requests_.find(id);
    if (scheduled == nullptr || !scheduled->lease_end_s) return false;
    CacheManager& cache = context_.cache;
    Sequence& sequence = scheduled->sequence;
    const int32_t num_found = scheduled->cache.num_cached_blocks() * cache.block_size();
    const int32_t num_computed = std::clamp(num_tokens, num_found, sequence.num_tokens() - 1);
    // A policy may rank it by the tokens that are left to compute.
    waiting_.remove(*scheduled);
    end_lease(*scheduled);
    sequence.receive_blocks(num_computed, now_s);
    waiting_.add(*scheduled, now_s);
    cache.commit(scheduled->cache, sequence.token_ids, num_computed);
    if (num_computed >= sequence.num_prompt_tokens) scheduled->request->prompt_computed = true;
    context_.counters.remote_tokens += num_computed - num_found;
    return true;
}

void RemoteBlocks::end_lease(ScheduledSequence& scheduled) {
    if (!scheduled.lease_end_s) return;
    scheduled.lease_end_s.reset();
    std::erase(leased_, &scheduled);
}

void RemoteBlocks::expire(double until_s) {
    if (leased_.empty()) return;
    const std::vector<ScheduledSequence*> leased = leased_;
    for (ScheduledSequence* scheduled : leased) {
        if (*scheduled->lease_end_s > until_s) continue;
        end_lease(*scheduled);
        scheduled->sequence.withdraw(context_.now_s);
        release_to_wait(*scheduled, context_.cache);
        ++context_.counters.remote_expiries;
    }
}

}  // namespace nvllm
