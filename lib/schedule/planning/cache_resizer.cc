// Defragmentation and resizing of the cache.
#include "lib/schedule/planning/cache_resizer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.h"
#include "lib/schedule/planning/request_limits.h"

namespace nvllm {
namespace {

// A check of the fragmentation reads the state of all blocks.
constexpr int64_t kStepsBetweenChecks = 64;

}  // namespace

bool CacheResizer::is_check_due() const {
    return context_.counters.steps % kStepsBetweenChecks == 0;
}

void CacheResizer::collect_cache_stats(StepObservation& step) {
    const BlockCounts blocks = context_.cache.stats().blocks;
    step.free_memory_share = 1.0 - static_cast<double>(blocks.used) / blocks.total;
    if (is_check_due()) fragmentation_ = context_.cache.detailed_stats().total.fragmentation;
    step.fragmentation = fragmentation_;
}

// A remote source writes to leased blocks.
bool CacheResizer::blocks_can_move() const {
    return remote_.no_plans_in_flight() && remote_.leased().empty();
}

void CacheResizer::take_moves(Compaction&& compaction) {
    update_.moves = std::move(compaction.moves);
    for (const TableChange& change : compaction.changes) {
        const ScheduledSequence* owner = requests_.find(change.owner);
        if (owner != nullptr) update_.change_table(*owner, change);
    }
}

void CacheResizer::defragment() {
    const double threshold = context_.config.defrag_threshold;
    if (threshold <= 0.0 || !is_check_due()) return;
    CacheManager& cache = context_.cache;
    if (!blocks_can_move() || cache.fragmentation() <= threshold) return;
    std::vector<int32_t> targets;
    for (int32_t group = 0; group < cache.num_groups(); ++group) {
        const BlockCounts counts = cache.counts(group);
        targets.push_back(std::max(1, counts.used + counts.cached));
    }
    if (Result<Compaction> compaction = cache.compact(targets)) take_moves(std::move(*compaction));
}

bool CacheResizer::uses_more_than(std::span<const int32_t> num_blocks) const {
    for (int32_t group = 0; group < context_.cache.num_groups(); ++group) {
        if (context_.cache.counts(group).used > num_blocks[static_cast<size_t>(group)]) return true;
    }
    return false;
}

void CacheResizer::check_all_can_finish(std::span<const int32_t> num_blocks) const {
    for (const auto& [id, scheduled] : requests_.sequences()) {
        if (scheduled->sequence.state == SequenceState::finished) continue;
        for (int32_t group = 0; group < context_.cache.num_groups(); ++group) {
            const int32_t needed =
                max_blocks(context_.config, context_.cache, group,
                           scheduled->sequence.longest_length, scheduled->request->request);
            if (needed <= num_blocks[static_cast<size_t>(group)]) continue;
            throw Error(ErrorKind::does_not_fit,
                        "an active request needs " + std::to_string(needed) +
                            " cache blocks; the cache cannot become smaller than that");
        }
    }
}

bool CacheResizer::resize(std::span<const int32_t> num_blocks) {
    if (!blocks_can_move()) return false;
    check_all_can_finish(num_blocks);
    while (uses_more_than(num_blocks)) preemptor_.reclaim_any();
    CacheManager& cache = context_.cache;
    if (!update_.swaps_out.empty() || cache.has_tier_moves()) return false;
    std::vector<int32_t> targets;
    for (int32_t group = 0; group < cache.num_groups(); ++group) {
        targets.push_back(
            std::min(num_blocks[static_cast<size_t>(group)], cache.counts(group).total));
    }
    Result<Compaction> compaction = cache.compact(targets);
    if (!compaction) return false;
    take_moves(std::move(*compaction));
    if (cache.resize(num_blocks)) return false;
    update_.num_blocks.assign(num_blocks.begin(), num_blocks.end());
    return true;
}

}  // namespace nvllm
