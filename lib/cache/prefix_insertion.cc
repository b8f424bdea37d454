// What blocks hold and how much it is worth: publishing, withdrawing, ranking.
#include "kernels/error.h"
#include "lib/cache/cache_manager.h"

namespace nvllm {

void CacheManager::publish_next_block(SequenceBlocks& sequence, std::span<const int32_t> tokens) {
    const int32_t block = sequence.num_published_;
    const int64_t num_known = index_.num_nodes();
    PrefixNode* node = index_.find_or_add(sequence.published_, key_of_next_block(sequence, tokens),
                                          tokens_of(tokens, block), extra_of(sequence, block));
    if (index_.num_nodes() > num_known) {
        node->last_use = tick_;
        meet_expectations(*node);
    }
    for (int32_t group = 0; group < num_groups(); ++group) {
        const BlockTable& table = sequence.tables_[group];
        if (block >= table.num_given_back()) publish(*node, group, table[block]);
    }
    set_published(sequence, node, block + 1);
}

// Keys of what was generated are not kept: they are wanted again only after a preemption.
BlockKey CacheManager::key_of_next_block(const SequenceBlocks& sequence,
                                         std::span<const int32_t> tokens) const {
    const int32_t block = sequence.num_published_;
    if (block < std::ssize(sequence.keys_)) return sequence.keys_[block];
    const BlockKey parent = block == 0 ? BlockKey{} : sequence.published_->key;
    return index_.key(parent, tokens_of(tokens, block), extra_of(sequence, block));
}

// A content is kept once: a block with the same that nobody uses is free from now on.
void CacheManager::publish(PrefixNode& node, int32_t group, BlockId block) {
    const PrefixNode* known = index_.node(group, block);
    if (known != nullptr) {
        // Forks share blocks and come to publish them one after the other.
        NVLLM_CHECK(known == &node, "a shared block was written to");
        return;
    }
    const std::vector<BlockId> others = index_.blocks(node, group);
    index_.publish(node, group, block);
    pools_[group].mark_cached(block);
    for (const BlockId other : others) {
        if (pools_[group].references(other) > 0) continue;
        withdraw(group, other);
        pools_[group].forget(other);
        ++num_duplicates_freed_;
    }
    if (node.parent != nullptr) rank_anew(*node.parent, group);
}

void CacheManager::withdraw(int32_t group, BlockId block) {
    PrefixNode* parent = index_.node(group, block)->parent;
    // A parent that holds no block may go with the child.
    const bool parent_stays = parent != nullptr && parent->groups[group].num_blocks > 0;
    index_.withdraw(group, block);
    if (parent_stays) rank_anew(*parent, group);
}

void CacheManager::give_up(int32_t group, BlockId block) {
    BlockPool& pool = pools_[group];
    if (pool.references(block) > 1 || !pool.is_cached(block)) {
        pool.release(block);
        return;
    }
    PrefixNode& node = *index_.node(group, block);
    // Who used it until now has it in fresh memory, however long ago it came.
    node.last_use = tick_;
    if (node.groups[group].num_blocks > 1) {
        withdraw(group, block);
        pool.forget(block);
        ++num_duplicates_freed_;
    }
    pool.release(block, rank(node, group));
}

EvictionRank CacheManager::rank(const PrefixNode& node, int32_t group) const {
    if (eviction_.value == nullptr) return {};
    const int32_t window = config_.groups[group].window;
    const bool expected = eviction_.heeds_expectations && node.num_expected > 0;
    const BlockUse use{.depth = node.depth,
                       .block_size = config_.block_size,
                       .window = window,
                       .num_hits = node.num_hits,
                       .recent_uses = node.recent_uses,
                       .last_use = half_lives(node.last_use),
                       .expected = expected};
    const bool waits =
        eviction_.children_first && window == 0 && node.groups[group].num_held_children > 0;
    return {waits, expected, eviction_.value(use, config_.eviction_costs)};
}

// What is known of a content changed: its place in the order of eviction, if it stands there. A
// block that nobody uses is the only one with its content.
void CacheManager::rank_anew(const PrefixNode& node, int32_t group) {
    if (eviction_.value == nullptr) return;
    const std::optional<BlockId> block = PrefixIndex::block(node, group);
    if (!block || pools_[group].references(*block) > 0) return;
    pools_[group].rank_anew(*block, rank(node, group));
}

}  // namespace nvllm
