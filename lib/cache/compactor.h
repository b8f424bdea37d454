// Moves blocks to the front of their group, and changes the number of blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/cache/block_tables.h"
#include "lib/cache/compaction.h"

namespace nvllm {

class Compactor {
  public:
    Compactor(const CacheShape& shape, std::vector<BlockPool>& pools, PrefixIndex& index,
              PrefixCache& prefix_cache, BlockTables& tables, const DeferredFree& deferred)
        : shape_(shape),
          pools_(pools),
          index_(index),
          prefix_cache_(prefix_cache),
          tables_(tables),
          deferred_(deferred) {}

    // See CacheManager.
    Result<Compaction> compact(std::span<const int32_t> targets);
    std::optional<Fault> resize(std::span<const int32_t> num_blocks);

    const CompactionCounts& counts() const { return counts_; }

  private:
    std::optional<Fault> why_not_compact(std::span<const int32_t> targets) const;
    std::optional<Fault> why_not_resize(std::span<const int32_t> num_blocks) const;
    void evict_above(int32_t group, int32_t target, Compaction& compaction);
    std::vector<BlockId> move_below(int32_t group, int32_t target, Compaction& compaction);
    void change_checkpoints(CacheSequence& sequence, int32_t group, int32_t target,
                            std::span<const BlockId> new_blocks);
    void change_tables(int32_t group, int32_t target, std::span<const BlockId> new_blocks,
                       Compaction& compaction);

    const CacheShape& shape_;
    std::vector<BlockPool>& pools_;  // per group
    PrefixIndex& index_;
    PrefixCache& prefix_cache_;
    BlockTables& tables_;
    const DeferredFree& deferred_;
    CompactionCounts counts_;
};

}  // namespace nvllm
