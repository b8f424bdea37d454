// Lookup, insertion and eviction of blocks.
#include "lib/cache/prefix/prefix_cache.h"

#include <optional>

#include "kernels/error.h"
#include "lib/cache/prefix/prefix_keys.h"

namespace nvllm {

// Whether every group still holds the blocks that a query right after `block`, whose content is
// `node`, reads. `run_start`: per group, the first block of the unbroken run that ends at `block`;
// updated.
PrefixCache::Reach PrefixCache::reach(const PrefixNode& node, int32_t block,
                                      std::vector<int32_t>& run_start) const {
    Reach reach;
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        if (!node.is_held(group)) run_start[group] = block + 1;
        const int32_t next = (block + 1) * shape_.block_size();
        bool& reaches = shape_.is_state(group) ? reach.states : reach.blocks;
        reaches = reaches && run_start[group] <= shape_.first_block_read(group, next);
    }
    return reach;
}

PrefixMatch PrefixCache::match(CacheSequence& sequence, std::span<const int32_t> tokens) const {
    PrefixMatch match;
    if (!enabled_ || tokens.empty()) return match;
    const int32_t limit = num_reusable_blocks(tokens, shape_.block_size());
    extend_keys(index_, sequence, tokens, limit);
    std::vector<int32_t> run_start(pools_.size(), 0);
    int32_t num_matched = 0;
    int32_t num_in_blocks = 0;
    PrefixNode* node = nullptr;
    for (int32_t block = 0; block < limit; ++block) {
        node = find_block(index_, node, sequence, tokens, block);
        if (node == nullptr) break;
        match.contents.push_back(node);
        const Reach found = reach(*node, block, run_start);
        if (found.blocks) num_in_blocks = block + 1;
        if (found.blocks && found.states) num_matched = block + 1;
    }
    match.contents.resize(num_matched);
    match.num_tokens = num_matched * shape_.block_size();
    match.num_without_state = num_in_blocks * shape_.block_size() - match.num_tokens;
    return match;
}

void PrefixCache::use(CacheSequence& sequence, const PrefixMatch& match) {
    const auto num_matched = static_cast<int32_t>(match.contents.size());
    ranking_.advance(num_matched);
    for (PrefixNode* node : match.contents) ranking_.touch(*node);
    if (num_matched == 0) return;
    index_.pin(*match.contents.back());
    set_cached(sequence, match.contents.back(), num_matched);
    sequence.num_shared = num_matched;
}

void PrefixCache::insert_next_block(CacheSequence& sequence, std::span<const int32_t> tokens) {
    const int32_t block = sequence.num_cached;
    const int64_t num_before = index_.num_nodes();
    PrefixNode* node = index_.find_or_add(sequence.last_cached, key_of_next_block(sequence, tokens),
                                          block_tokens(tokens, block, shape_.block_size()),
                                          block_extra(sequence, block));
    if (index_.num_nodes() > num_before) {
        node->last_use = ranking_.tick();
        hints_.node_added(*node);
    }
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        const BlockTable& table = sequence.tables[group];
        if (shape_.is_state(group) || block < table.num_given_back()) continue;
        insert(*node, group, table[block]);
    }
    set_cached(sequence, node, block + 1);
}

// Keys of generated tokens are not stored: they are needed again only after a preemption.
BlockKey PrefixCache::key_of_next_block(const CacheSequence& sequence,
                                        std::span<const int32_t> tokens) const {
    const int32_t block = sequence.num_cached;
    if (block < std::ssize(sequence.keys)) return sequence.keys[block];
    const BlockKey parent = block == 0 ? BlockKey{} : sequence.last_cached->key;
    return index_.key(parent, block_tokens(tokens, block, shape_.block_size()),
                      block_extra(sequence, block));
}

void PrefixCache::insert(PrefixNode& node, int32_t group, BlockId block) {
    const PrefixNode* known = index_.node(group, block);
    if (known != nullptr) {
        // Forks share blocks and insert them one after the other.
        NVLLM_CHECK(known == &node, "a shared block was written to");
        return;
    }
    const std::vector<BlockId> others = index_.blocks(node, group);
    index_.insert(node, group, block);
    pools_[group].mark_cached(block);
    for (const BlockId other : others) {
        if (pools_[group].references(other) > 0) continue;
        remove_and_forget(group, other);
        ++num_duplicates_freed_;
    }
    if (node.parent != nullptr) ranking_.rerank(*node.parent, group);
    disk_.add(node, group);
}

void PrefixCache::remove(int32_t group, BlockId block) {
    PrefixNode* parent = index_.node(group, block)->parent;
    // A parent that holds no block may be dropped with the child.
    const bool parent_stays = parent != nullptr && parent->groups[group].num_blocks > 0;
    index_.remove(group, block);
    if (parent_stays) ranking_.rerank(*parent, group);
}

void PrefixCache::remove_unused(const PrefixNode& node, int32_t group) {
    for (const BlockId block : index_.blocks(node, group)) {
        if (pools_[group].references(block) == 0) remove_and_forget(group, block);
    }
}

void PrefixCache::remove_own(const CacheSequence& sequence) {
    const std::vector<PrefixNode*> nodes = path(sequence);
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        const BlockTable& table = sequence.tables[group];
        const int32_t first = std::max(sequence.num_shared, table.num_given_back());
        for (int32_t i = first; i < sequence.num_cached; ++i) {
            // The sequence does not know its blocks when it is swapped out, nor its checkpoints:
            // all replicas are removed.
            const bool unknown = sequence.swapped_out() || shape_.is_state(group);
            const std::vector<BlockId> blocks =
                unknown ? index_.blocks(*nodes[i], group) : std::vector{table[i]};
            for (const BlockId block : blocks) {
                // A fork may have removed a block that both hold.
                if (index_.contains(group, block)) remove_and_forget(group, block);
            }
            host_.forget(*nodes[i], group);
            disk_.forget(*nodes[i], group);
        }
    }
}

void PrefixCache::evict_next(int32_t group) {
    remove_and_forget(group, *pools_[group].next_evicted(ranking_.decay()));
}

void PrefixCache::clear(int32_t group) {
    BlockPool& pool = pools_[group];
    for (BlockId block = 0; block < pool.num_total(); ++block) {
        const bool is_used = pool.references(block) > 0;
        if (pool.is_cached(block) && !is_used) remove_and_forget(group, block);
    }
}

std::vector<PrefixNode*> PrefixCache::path(const CacheSequence& sequence) const {
    std::vector<PrefixNode*> path(static_cast<size_t>(sequence.num_cached));
    PrefixNode* node = sequence.last_cached;
    for (size_t i = path.size(); i > 0; --i) {
        path[i - 1] = node;
        node = node->parent;
    }
    return path;
}

BlockId PrefixCache::take(int32_t group) {
    const std::optional<BlockPool::Taken> taken = pools_[group].take(ranking_.decay());
    NVLLM_CHECK(taken.has_value(), "blocks were counted before they were taken");
    if (taken->was_cached) {
        host_.keep(*index_.node(group, taken->block), group, taken->block);
        remove(group, taken->block);
    }
    host_.retarget(group, taken->block);
    ranking_.advance(1);
    return taken->block;
}

void PrefixCache::free(int32_t group, BlockId block) {
    BlockPool& pool = pools_[group];
    if (pool.references(block) > 1 || !pool.is_cached(block)) {
        pool.release(block);
        return;
    }
    PrefixNode& node = *index_.node(group, block);
    // The sequence used the block until now, at whatever time it was inserted.
    node.last_use = ranking_.tick();
    if (node.groups[group].num_blocks > 1) {
        remove_and_forget(group, block);
        ++num_duplicates_freed_;
    }
    pool.release(block, ranking_.rank(node, group));
}

}  // namespace nvllm
