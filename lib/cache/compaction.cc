// Moving blocks to the front of their group, and changing the number of blocks.
#include "lib/cache/compaction.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "kernels/error.h"
#include "lib/cache/cache_manager.h"

namespace nvllm {

std::optional<Fault> CacheManager::why_not_compact(std::span<const int32_t> targets) const {
    const auto fault = [](const std::string& why) {
        return Fault{ErrorKind::does_not_fit, "the cache cannot be compacted: " + why};
    };
    NVLLM_CHECK(targets.size() == pools_.size(), "one target for each cache group");
    if (last_named_plan_ > committed_plan_) {
        return fault("plan " + std::to_string(last_named_plan_) + " is not committed");
    }
    for (int32_t group = 0; group < num_groups(); ++group) {
        const int32_t used = pools_[group].num_used();
        if (targets[group] >= std::max(used, 1)) continue;
        return fault(std::to_string(used) + " blocks of group " + std::to_string(group) +
                     " are used, the target is " + std::to_string(targets[group]));
    }
    return std::nullopt;
}

Result<Compaction> CacheManager::compact(std::span<const int32_t> targets) {
    if (std::optional<Fault> fault = why_not_compact(targets)) return *std::move(fault);
    Compaction compaction;
    for (int32_t group = 0; group < num_groups(); ++group) {
        drop_cached(group, targets[group], compaction);
        const std::vector<BlockId> places = move_below(group, targets[group], compaction);
        change_tables(group, targets[group], places, compaction);
    }
    ++compaction_counts_.compactions;
    compaction_counts_.moved_blocks += static_cast<int64_t>(compaction.moves.size());
    compaction_counts_.dropped_blocks += compaction.num_dropped;
    return compaction;
}

void CacheManager::drop_cached(int32_t group, int32_t target, Compaction& compaction) {
    BlockPool& pool = pools_[group];
    while (pool.num_used() + pool.num_cached() > target) {
        const BlockId block = *pool.next_evicted(half_lives(tick_));
        withdraw(group, block);
        pool.forget(block);
        ++compaction.num_dropped;
    }
}

// Where each block is now. Blocks only go from above the target to free ones below it: no block is
// both left and filled.
std::vector<BlockId> CacheManager::move_below(int32_t group, int32_t target,
                                              Compaction& compaction) {
    BlockPool& pool = pools_[group];
    std::vector<BlockId> places(static_cast<size_t>(pool.num_total()));
    std::iota(places.begin(), places.end(), 0);
    BlockId to = 0;
    for (BlockId from = target; from < pool.num_total(); ++from) {
        if (pool.is_free(from)) continue;
        while (!pool.is_free(to)) ++to;
        if (pool.is_cached(from)) index_.move(group, from, to);
        pool.move(from, to);
        places[from] = to;
        compaction.moves.push_back({group, from, to});
    }
    return places;
}

void CacheManager::change_tables(int32_t group, int32_t target, std::span<const BlockId> places,
                                 Compaction& compaction) {
    for (SequenceBlocks* sequence : sequences_) {
        BlockTable& table = sequence->tables_[group];
        for (int32_t i = 0; i < table.size(); ++i) {
            if (table[i] < target) continue;
            // Entries that were given back are never read, but must name a block that there is.
            table.replace(i, i < table.num_given_back() ? 0 : places[table[i]]);
            compaction.changes.push_back({sequence->owner(), group, i, table[i]});
        }
    }
}

std::optional<Fault> CacheManager::resize(std::span<const int32_t> num_blocks) {
    NVLLM_CHECK(num_blocks.size() == pools_.size(), "one size for each cache group");
    for (int32_t group = 0; group < num_groups(); ++group) {
        const BlockPool& pool = pools_[group];
        if (num_blocks[group] < 1) {
            return Fault{ErrorKind::does_not_fit, "every cache group needs at least 1 block"};
        }
        for (BlockId block = num_blocks[group]; block < pool.num_total(); ++block) {
            if (pool.is_free(block)) continue;
            return Fault{ErrorKind::does_not_fit,
                         "block " + std::to_string(block) + " of group " + std::to_string(group) +
                             " is not free; compact the cache before it shrinks"};
        }
    }
    for (int32_t group = 0; group < num_groups(); ++group) {
        pools_[group].resize(num_blocks[group]);
        index_.resize(group, num_blocks[group]);
        config_.groups[group].num_blocks = num_blocks[group];
        // What is left of blocks cut off stands in entries that were given back: never read.
        Compaction untold;
        change_tables(group, num_blocks[group], {}, untold);
    }
    return std::nullopt;
}

bool CacheManager::needs_defragmentation(double threshold) const {
    return fragmentation() > threshold;
}

}  // namespace nvllm
