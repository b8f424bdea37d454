// Sequences that continue one another: a fork shares blocks, and copies a block before it writes.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/cache/block_tables.h"
#include "lib/cache/compaction.h"
#include "lib/cache/state_slots.h"

namespace nvllm {

class CopyOnWrite {
  public:
    CopyOnWrite(const CacheShape& shape, std::vector<BlockPool>& pools, PrefixIndex& index,
                PrefixCache& prefix_cache, BlockTables& tables, StateSlots& states)
        : shape_(shape),
          pools_(pools),
          index_(index),
          prefix_cache_(prefix_cache),
          tables_(tables),
          states_(states) {}

    // See CacheManager.
    void fork(CacheSequence& child, const CacheSequence& parent, int32_t num_positions);
    bool make_writable(CacheSequence& sequence, int32_t next_position, bool keeps_state,
                       std::vector<BlockMove>& copies, std::vector<TableChange>& changes);

    // Shared blocks that were copied because a sequence was about to write to them.
    int64_t num_copies() const { return num_copies_; }

  private:
    void share_table(CacheSequence& child, const CacheSequence& parent, int32_t group,
                     int32_t num_positions);
    int32_t num_to_replace(const CacheSequence& sequence, int32_t group, int32_t first) const;
    void replace_shared(CacheSequence& sequence, int32_t group, int32_t next_position,
                        std::vector<BlockMove>& copies, std::vector<TableChange>& changes);

    const CacheShape& shape_;
    std::vector<BlockPool>& pools_;  // per group
    PrefixIndex& index_;
    PrefixCache& prefix_cache_;
    BlockTables& tables_;
    StateSlots& states_;
    int64_t num_copies_ = 0;
};

}  // namespace nvllm
