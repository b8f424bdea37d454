// Blocks that move while requests run: against fragmentation, and for another size of the cache.
#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "lib/schedule/scheduler.h"

namespace nvllm {
namespace {

// Looking for fragmentation goes through all blocks: now and then is enough.
constexpr int64_t kStepsBetweenLooks = 64;

}  // namespace

void Scheduler::look_at_cache(StepObservation& step) {
    const BlockCounts blocks = cache_.stats().blocks;
    step.free_memory_share = 1.0 - static_cast<double>(blocks.used) / blocks.total;
    if (counters_.steps % kStepsBetweenLooks == 0) {
        fragmentation_ = cache_.detailed_stats().total.fragmentation;
    }
    step.fragmentation = fragmentation_;
}

// Swaps and copies read blocks where they are now, which may be given up already.
bool Scheduler::blocks_are_at_rest() const {
    return in_flight_.empty() && swaps_out_.empty() && copies_.empty() && !has_moves();
}

// Blocks that are lent are written to.
bool Scheduler::blocks_can_move() const { return blocks_are_at_rest() && leased_.empty(); }

void Scheduler::take_moves(Compaction&& compaction) {
    moves_ = std::move(compaction.moves);
    for (const TableChange& change : compaction.changes) {
        // A beam that was forked just now comes to the worker with its table as it is.
        const ScheduledSequence* owner = lookup(change.owner);
        if (owner != nullptr && owner->told) table_changes_.push_back(change);
    }
}

// In a paged pool this helps nobody to a block; it keeps the end of the pool free to be given back.
void Scheduler::move_blocks_together() {
    if (config_.defrag_threshold <= 0.0 || counters_.steps % kStepsBetweenLooks != 0) return;
    if (!blocks_can_move() || cache_.fragmentation() <= config_.defrag_threshold) return;
    std::vector<int32_t> targets;
    for (int32_t group = 0; group < cache_.num_groups(); ++group) {
        const BlockCounts counts = cache_.counts(group);
        targets.push_back(std::max(1, counts.used + counts.cached));
    }
    if (Result<Compaction> compaction = cache_.compact(targets)) {
        take_moves(std::move(*compaction));
    }
}

bool Scheduler::uses_more_than(std::span<const int32_t> num_blocks) const {
    for (int32_t group = 0; group < cache_.num_groups(); ++group) {
        if (cache_.counts(group).used > num_blocks[static_cast<size_t>(group)]) return true;
    }
    return false;
}

void Scheduler::check_all_can_finish(std::span<const int32_t> num_blocks) const {
    for (const auto& [id, scheduled] : sequences_) {
        if (scheduled->sequence.state == SequenceState::finished) continue;
        for (int32_t group = 0; group < cache_.num_groups(); ++group) {
            const int32_t needed =
                most_blocks(config_, cache_, group, scheduled->sequence.longest_length,
                            scheduled->request->request);
            if (needed <= num_blocks[static_cast<size_t>(group)]) continue;
            throw Error(ErrorKind::does_not_fit,
                        "a request under way needs " + std::to_string(needed) +
                            " cache blocks; the cache cannot become smaller than that");
        }
    }
}

bool Scheduler::resize_cache(std::span<const int32_t> num_blocks, double now_s) {
    now_s_ = now_s;
    if (!blocks_can_move()) return false;
    check_all_can_finish(num_blocks);
    while (uses_more_than(num_blocks)) {
        ScheduledSequence* victim =
            choose_victim(running_, waiting_.all(), nullptr, policy_, now_s_);
        NVLLM_CHECK(victim != nullptr, "only running and paused sequences use blocks");
        preempt(*victim);
        leave_running();
    }
    if (!swaps_out_.empty()) return false;
    std::vector<int32_t> targets;
    for (int32_t group = 0; group < cache_.num_groups(); ++group) {
        targets.push_back(
            std::min(num_blocks[static_cast<size_t>(group)], cache_.counts(group).total));
    }
    Result<Compaction> compaction = cache_.compact(targets);
    if (!compaction) return false;
    take_moves(std::move(*compaction));
    if (cache_.resize(num_blocks)) return false;
    num_blocks_.assign(num_blocks.begin(), num_blocks.end());
    return true;
}

}  // namespace nvllm
