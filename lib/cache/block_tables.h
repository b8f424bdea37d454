// The block tables of all sequences: admission, growth, and freeing of their blocks.
//
// A block that a sequence frees is reused only after the last plan that named the sequence is
// committed. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/cache/block_pool.h"
#include "lib/cache/cache_shape.h"
#include "lib/cache/deferred_free.h"
#include "lib/cache/prefix/prefix_cache.h"
#include "lib/cache/sequence_blocks.h"

namespace nvllm {

class BlockTables {
  public:
    BlockTables(const CacheShape& shape, std::vector<BlockPool>& pools, PrefixCache& prefix_cache,
                HostTier& host, DeferredFree& deferred)
        : shape_(shape),
          pools_(pools),
          prefix_cache_(prefix_cache),
          host_(host),
          deferred_(deferred) {}

    // The list of all sequences, in no order.
    void add(CacheSequence& sequence);
    void remove(const CacheSequence& sequence);
    // The state moved in memory.
    void replace(CacheSequence& to) noexcept { sequences_[to.index] = &to; }
    std::span<CacheSequence* const> all() const { return sequences_; }

    // See CacheManager.
    int32_t num_missing(int32_t group, const PrefixMatch& match, int32_t num_tokens,
                        int32_t largest_step, int32_t headroom) const;
    bool admit(CacheSequence& sequence, const PrefixMatch& match, int32_t num_tokens,
               int32_t largest_step, int32_t headroom);
    bool allocate(CacheSequence& sequence, int32_t num_positions,
                  std::vector<std::vector<BlockId>>& added) {
        if (!holds(sequence, num_positions) && !append(sequence, num_positions, added)) {
            return false;
        }
        sequence.num_positions = std::max(sequence.num_positions, num_positions);
        return true;
    }

    // Frees the blocks that no query at `num_computed` or later reads.
    void free_out_of_window(CacheSequence& sequence, int32_t num_computed);
    // The sequence refers to the block no more.
    void free(const CacheSequence& sequence, int32_t group, BlockId block) {
        if (deferred_.is_committed(sequence.last_plan)) {
            prefix_cache_.free(group, block);
        } else {
            deferred_.add(sequence.last_plan, group, block);
        }
    }
    // Frees all blocks of the table, the last one first.
    void clear(CacheSequence& sequence, int32_t group);

  private:
    bool holds(const CacheSequence& sequence, int32_t num_positions) const {
        return std::ranges::all_of(sequence.tables, [&](const BlockTable& table) {
            return int64_t{table.size()} * shape_.block_size() >= num_positions;
        });
    }
    bool append(CacheSequence& sequence, int32_t num_positions,
                std::vector<std::vector<BlockId>>& added);
    void share(CacheSequence& sequence, int32_t group, const PrefixMatch& match);
    void share_checkpoint(CacheSequence& sequence, int32_t group, const PrefixNode& node);
    int32_t num_host_tokens(const PrefixMatch& match) const;
    void bring_back(CacheSequence& sequence, int32_t group, const PrefixMatch& match);

    const CacheShape& shape_;
    std::vector<BlockPool>& pools_;  // per group
    PrefixCache& prefix_cache_;
    HostTier& host_;
    DeferredFree& deferred_;
    std::vector<CacheSequence*> sequences_;
};

}  // namespace nvllm
