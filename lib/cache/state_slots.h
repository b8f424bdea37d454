// The running states of sequences in groups of kind state, and their checkpoints.
//
// A recurrent layer keeps one state for each sequence instead of keys and values for each token. A
// slot holds one state: it is a block of the group's pool. The only entry of the sequence's table
// is its running slot. A state cannot go back: a prefix is reused only if a copy of the state at
// its end exists, a checkpoint. Checkpoints are taken at block boundaries. The prefix cache owns
// and evicts them like blocks. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/cache/block_tables.h"
#include "lib/cache/compaction.h"

namespace nvllm {

class StateSlots {
  public:
    StateSlots(const CacheShape& shape, std::vector<BlockPool>& pools, PrefixCache& prefix_cache,
               BlockTables& tables, int32_t checkpoint_interval)
        : shape_(shape),
          pools_(pools),
          prefix_cache_(prefix_cache),
          tables_(tables),
          checkpoint_interval_(std::max(1, shape.num_blocks_for(checkpoint_interval)) *
                               shape.block_size()) {}

    // Positions at whose multiples states are kept: whole blocks.
    int32_t checkpoint_interval() const { return checkpoint_interval_; }

    // `child` shares the slot that holds the parent's state. REQUIRES: the state group's table of
    // `child` is empty.
    void fork(CacheSequence& child, const CacheSequence& parent, int32_t group);

    // Slots that make_writable() needs; 0 or 1.
    int32_t num_needed(const CacheSequence& sequence, int32_t group) const;
    // Before the state is updated with the token at `next_position`, when it holds all earlier
    // ones: the sequence gets a slot of its own, with the state copied to it, if its slot is shared
    // or holds a checkpoint. At a multiple of the interval, or at a block boundary if
    // `keeps_state`, the old slot becomes a checkpoint if a slot is available. REQUIRES:
    // num_needed() slots are available.
    void make_writable(CacheSequence& sequence, int32_t group, int32_t next_position,
                       bool keeps_state, std::vector<BlockMove>& copies,
                       std::vector<TableChange>& changes);

    // Inserts the checkpoints of blocks that are in the prefix cache by now.
    void insert_checkpoints(CacheSequence& sequence);
    // Frees the source and the checkpoints that are not yet inserted.
    void clear(CacheSequence& sequence, int32_t group);

  private:
    bool must_replace(int32_t group, BlockId slot) const {
        return pools_[group].references(slot) > 1 || pools_[group].is_cached(slot);
    }
    bool wants_checkpoint(const CacheSequence& sequence, int32_t group, int32_t next_position,
                          bool keeps_state) const;
    bool has_checkpoint(const CacheSequence& sequence, int32_t group, int32_t block_index) const;
    void keep_checkpoint(CacheSequence& sequence, int32_t group, int32_t block_index, BlockId slot);

    const CacheShape& shape_;
    std::vector<BlockPool>& pools_;  // per group
    PrefixCache& prefix_cache_;
    BlockTables& tables_;
    int32_t checkpoint_interval_;
};

}  // namespace nvllm
