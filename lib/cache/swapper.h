// Moves sequences to host memory and back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/cache/block_tables.h"
#include "lib/cache/state_slots.h"
#include "lib/cache/swap_space.h"

namespace nvllm {

class Swapper {
  public:
    Swapper(const CacheShape& shape, std::vector<BlockPool>& pools, PrefixCache& prefix_cache,
            BlockTables& tables, StateSlots& states, DeferredFree& deferred, SwapSpace& swap_space,
            HostTier& host)
        : shape_(shape),
          pools_(pools),
          prefix_cache_(prefix_cache),
          tables_(tables),
          states_(states),
          deferred_(deferred),
          swap_space_(swap_space),
          host_(host) {}

    // See CacheManager.
    bool swap_out(CacheSequence& sequence, int32_t num_positions, std::vector<SwapMove>& moves);
    bool swap_in(CacheSequence& sequence, int32_t headroom, std::vector<SwapMove>& moves);

    // The plan with this number reads the host blocks of a sequence that was swapped in: they are
    // free when it is committed.
    void free_after(CacheSequence& sequence, uint64_t plan_number);
    // Frees the host blocks of a sequence that ends.
    void free_host_blocks(CacheSequence& sequence);

    const SwapCounts& counts() const { return counts_; }

  private:
    void swap_out_group(CacheSequence& sequence, int32_t group, int32_t end,
                        std::vector<SwapMove>& moves);
    int32_t num_to_take(const CacheSequence& sequence, int32_t group,
                        std::span<PrefixNode* const> path) const;
    void swap_in_group(CacheSequence& sequence, int32_t group, std::span<PrefixNode* const> path,
                       std::vector<SwapMove>& moves);
    bool can_be_cached(const CacheSequence& sequence, int32_t group, int32_t index) const {
        return index < sequence.num_cached && !shape_.is_state(group);
    }
    std::vector<bool> share_cached(CacheSequence& sequence, int32_t group, int32_t end,
                                   std::span<PrefixNode* const> path);

    const CacheShape& shape_;
    std::vector<BlockPool>& pools_;  // per group
    PrefixCache& prefix_cache_;
    BlockTables& tables_;
    StateSlots& states_;
    DeferredFree& deferred_;
    SwapSpace& swap_space_;
    HostTier& host_;
    SwapCounts counts_;
};

}  // namespace nvllm
