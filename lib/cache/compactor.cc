// Which blocks move where, and the tables that change with them.
#include "lib/cache/compactor.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "kernels/error.h"

namespace nvllm {

std::optional<Fault> Compactor::why_not_compact(std::span<const int32_t> targets) const {
    const auto fault = [](const std::string& why) {
        return Fault{ErrorKind::does_not_fit, "the cache cannot be compacted: " + why};
    };
    NVLLM_CHECK(targets.size() == pools_.size(), "one target for each cache group");
    if (!deferred_.all_committed()) {
        return fault("plan " + std::to_string(deferred_.last_named_plan()) + " is not committed");
    }
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        const int32_t used = pools_[group].num_used();
        if (targets[group] >= std::max(used, 1)) continue;
        return fault(std::to_string(used) + " blocks of group " + std::to_string(group) +
                     " are used, the target is " + std::to_string(targets[group]));
    }
    return std::nullopt;
}

Result<Compaction> Compactor::compact(std::span<const int32_t> targets) {
    if (std::optional<Fault> fault = why_not_compact(targets)) return *std::move(fault);
    Compaction compaction;
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        evict_above(group, targets[group], compaction);
        const std::vector<BlockId> new_blocks = move_below(group, targets[group], compaction);
        change_tables(group, targets[group], new_blocks, compaction);
    }
    ++counts_.compactions;
    counts_.moved_blocks += static_cast<int64_t>(compaction.moves.size());
    counts_.dropped_blocks += compaction.num_dropped;
    return compaction;
}

void Compactor::evict_above(int32_t group, int32_t target, Compaction& compaction) {
    const BlockPool& pool = pools_[group];
    while (pool.num_used() + pool.num_cached() > target) {
        prefix_cache_.evict_next(group);
        ++compaction.num_dropped;
    }
}

// The new number of each block. Blocks only move from above the target to free ones below it: no
// block is both read and written.
std::vector<BlockId> Compactor::move_below(int32_t group, int32_t target, Compaction& compaction) {
    BlockPool& pool = pools_[group];
    std::vector<BlockId> new_blocks(static_cast<size_t>(pool.num_total()));
    std::iota(new_blocks.begin(), new_blocks.end(), 0);
    BlockId to = 0;
    for (BlockId from = target; from < pool.num_total(); ++from) {
        if (pool.is_free(from)) continue;
        while (!pool.is_free(to)) ++to;
        if (pool.is_cached(from)) index_.move(group, from, to);
        pool.move(from, to);
        new_blocks[from] = to;
        compaction.moves.push_back({group, from, to});
    }
    return new_blocks;
}

void Compactor::change_tables(int32_t group, int32_t target, std::span<const BlockId> new_blocks,
                              Compaction& compaction) {
    for (CacheSequence* sequence : tables_.all()) {
        BlockTable& table = sequence->tables[group];
        for (int32_t i = 0; i < table.size(); ++i) {
            if (table[i] < target) continue;
            // Entries that were freed are never read, but must name a block that exists.
            table.replace(i, i < table.num_given_back() ? 0 : new_blocks[table[i]]);
            compaction.changes.push_back({sequence->owner, group, i, table[i]});
        }
        if (shape_.is_state(group)) change_checkpoints(*sequence, group, target, new_blocks);
    }
}

void Compactor::change_checkpoints(CacheSequence& sequence, int32_t group, int32_t target,
                                   std::span<const BlockId> new_blocks) {
    StateCheckpoints& checkpoints = sequence.checkpoints[group];
    if (checkpoints.source && *checkpoints.source >= target) {
        checkpoints.source = new_blocks[*checkpoints.source];
    }
    for (StateCheckpoints::Pending& one : checkpoints.pending) {
        if (one.slot >= target) one.slot = new_blocks[one.slot];
    }
}

std::optional<Fault> Compactor::why_not_resize(std::span<const int32_t> num_blocks) const {
    NVLLM_CHECK(num_blocks.size() == pools_.size(), "one size for each cache group");
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
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
    return std::nullopt;
}

std::optional<Fault> Compactor::resize(std::span<const int32_t> num_blocks) {
    if (std::optional<Fault> fault = why_not_resize(num_blocks)) return fault;
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        pools_[group].resize(num_blocks[group]);
        index_.resize(group, num_blocks[group]);
        // Blocks that were cut off can only be in entries that were freed, which are never read.
        Compaction unreported;
        change_tables(group, num_blocks[group], {}, unreported);
    }
    return std::nullopt;
}

}  // namespace nvllm
