// Ranks from a node's metadata.
#include "lib/cache/eviction_ranking.h"

#include <cmath>
#include <optional>

namespace nvllm {

EvictionRank EvictionRanking::rank(const PrefixNode& node, int32_t group) const {
    if (policy_.value == nullptr) return {};
    const int32_t reach = shape_.reach(group);
    const bool expected = policy_.uses_reuse_hints && node.num_expected > 0;
    const BlockUse use{.depth = node.depth,
                       .block_size = shape_.block_size(),
                       .window = reach,
                       .num_hits = node.num_hits,
                       .recent_uses = node.recent_uses,
                       .last_use = half_lives(node.last_use),
                       .expected = expected};
    const bool waits =
        policy_.children_first && reach == 0 && node.groups[group].num_held_children > 0;
    return {waits, expected, policy_.value(use, costs_)};
}

// An unused block is the only replica of its content in the group.
void EvictionRanking::rerank(const PrefixNode& node, int32_t group) {
    if (policy_.value == nullptr) return;
    const std::optional<BlockId> block = PrefixIndex::block(node, group);
    if (!block || pools_[group].references(*block) > 0) return;
    pools_[group].rerank(*block, rank(node, group));
}

void EvictionRanking::rerank(const PrefixNode& node) {
    for (int32_t group = 0; group < shape_.num_groups(); ++group) rerank(node, group);
}

void EvictionRanking::touch(PrefixNode& node) {
    ++node.num_hits;
    if (policy_.value == nullptr) {
        node.last_use = tick_;
        return;
    }
    node.recent_uses = 1.0 + node.recent_uses * std::exp2(-half_lives(tick_ - node.last_use));
    node.last_use = tick_;
    rerank(node);
}

}  // namespace nvllm
