// The order in which cached blocks are evicted: ranks blocks by the eviction policy.
//
// Time is a logical clock: a tick is one block asked for. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/cache/block_pool.h"
#include "lib/cache/cache_shape.h"
#include "lib/cache/eviction.h"
#include "lib/cache/prefix/prefix_index.h"

namespace nvllm {

class EvictionRanking {
  public:
    // `half_life`: ticks after which a use counts half. The pools are ranked if the policy ranks.
    EvictionRanking(const EvictionPolicy& policy, const EvictionCosts& costs, double half_life,
                    const CacheShape& shape, std::vector<BlockPool>& pools)
        : policy_(policy), costs_(costs), half_life_(half_life), shape_(shape), pools_(pools) {}

    const EvictionPolicy& policy() const { return policy_; }
    int64_t tick() const { return tick_; }
    void advance(int64_t num_ticks) { tick_ += num_ticks; }
    // Half-lives since the start: how much the values of blocks without a reuse hint decayed.
    double decay() const { return half_lives(tick_); }

    EvictionRank rank(const PrefixNode& node, int32_t group) const;
    // The node's metadata changed: moves its block in the order of eviction, if no sequence uses
    // the block.
    void rerank(const PrefixNode& node, int32_t group);
    void rerank(const PrefixNode& node);  // in all groups
    // A sequence found the node in the cache. Counts for blocks out of a window's reach as well.
    void touch(PrefixNode& node);

  private:
    double half_lives(int64_t tick) const { return static_cast<double>(tick) / half_life_; }

    const EvictionPolicy& policy_;
    EvictionCosts costs_;
    double half_life_;  // in ticks
    const CacheShape& shape_;
    std::vector<BlockPool>& pools_;  // per group
    int64_t tick_ = 0;
};

}  // namespace nvllm
