// The prefix cache: lookup of the longest cached prefix, insertion of full blocks, eviction.
//
// Full blocks of committed tokens are inserted: another sequence that begins with the same tokens
// shares them instead of computing them. Inserted blocks that no sequence uses can be found until
// they are evicted, in the order of the eviction policy. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/cache/block_pool.h"
#include "lib/cache/cache_shape.h"
#include "lib/cache/eviction_ranking.h"
#include "lib/cache/prefix/prefix_index.h"
#include "lib/cache/prefix/reuse_hints.h"
#include "lib/cache/sequence_blocks.h"
#include "lib/cache/tiers/disk_tier.h"
#include "lib/cache/tiers/host_tier.h"

namespace nvllm {

// The longest cached prefix of a list of tokens. Valid until the next change of the cache.
struct PrefixMatch {
    int32_t num_tokens = 0;             // whole blocks only
    std::vector<PrefixNode*> contents;  // of the matched blocks
    // Tokens behind those that are cached, too, in all groups but those with states.
    int32_t num_without_state = 0;
};

class PrefixCache {
  public:
    // Not `enabled`: nothing is inserted and nothing found; blocks are only allocated and freed.
    PrefixCache(bool enabled, const CacheShape& shape, std::vector<BlockPool>& pools,
                PrefixIndex& index, EvictionRanking& ranking, ReuseHints& hints, HostTier& host,
                DiskTier& disk)
        : enabled_(enabled),
          shape_(shape),
          pools_(pools),
          index_(index),
          ranking_(ranking),
          hints_(hints),
          host_(host),
          disk_(disk) {}

    bool enabled() const { return enabled_; }
    // Blocks freed because another one holds the same content.
    int64_t num_duplicates_freed() const { return num_duplicates_freed_; }
    // Tokens of admitted sequences; nothing is counted if not enabled.
    int64_t num_queried_tokens() const { return num_queried_tokens_; }
    int64_t num_hit_tokens() const { return num_hit_tokens_; }
    void count_query(int32_t num_tokens, int32_t num_found) {
        if (!enabled_) return;
        num_queried_tokens_ += num_tokens;
        num_hit_tokens_ += num_found;
    }

    // The longest prefix of `tokens` that every group still holds, on the device or in host memory,
    // as far as its window reaches back; with state groups, up to the last checkpoint that all of
    // them hold. At least the last token is left over: its logits are needed. Takes no block.
    // REQUIRES: `tokens` begin with those of earlier calls.
    PrefixMatch match(CacheSequence& sequence, std::span<const int32_t> tokens) const;
    // The sequence shares the matched blocks, whose references it already has.
    void use(CacheSequence& sequence, const PrefixMatch& match);

    // Inserts the full blocks among the first `num_computed` of `tokens` that are not yet inserted.
    // StateSlots inserts the checkpoints of state groups.
    void insert_full_blocks(CacheSequence& sequence, std::span<const int32_t> tokens,
                            int32_t num_computed) {
        while (enabled_ &&
               num_computed - sequence.num_cached * shape_.block_size() >= shape_.block_size()) {
            insert_next_block(sequence, tokens);
        }
    }
    // The block holds the node's content. Unused replicas of it are freed.
    void insert(PrefixNode& node, int32_t group, BlockId block);
    // The block's content cannot be found any more.
    void remove(int32_t group, BlockId block);
    // Removes the blocks with this content that no sequence uses.
    void remove_unused(const PrefixNode& node, int32_t group);
    // Removes the blocks that the sequence inserted itself.
    void remove_own(const CacheSequence& sequence);
    // Removes the next block in the order of eviction. REQUIRES: the group has a cached block that
    // no sequence uses.
    void evict_next(int32_t group);
    // Removes all blocks that no sequence uses.
    void clear(int32_t group);

    // The sequence's leading `num_blocks` blocks are cached, the last one as `node`, which is
    // pinned for the sequence already, or null.
    void set_cached(CacheSequence& sequence, PrefixNode* node, int32_t num_blocks) {
        if (sequence.last_cached != nullptr) index_.unpin(*sequence.last_cached);
        sequence.last_cached = node;
        sequence.num_cached = num_blocks;
    }
    // The nodes of the sequence's cached blocks, the first one first.
    std::vector<PrefixNode*> path(const CacheSequence& sequence) const;

    // A block with one reference; evicts one if none is free, whose content goes to host memory.
    // REQUIRES: one is available.
    BlockId take(int32_t group);
    // One reference less. A block in the prefix cache stays until it is evicted.
    void free(int32_t group, BlockId block);

  private:
    // What is there for a query right after a block.
    struct Reach {
        bool blocks = true;  // of the groups without states
        bool states = true;
    };
    Reach reach(const PrefixNode& node, int32_t block, std::vector<int32_t>& run_start) const;
    void insert_next_block(CacheSequence& sequence, std::span<const int32_t> tokens);
    BlockKey key_of_next_block(const CacheSequence& sequence,
                               std::span<const int32_t> tokens) const;
    void remove_and_forget(int32_t group, BlockId block) {
        remove(group, block);
        pools_[group].forget(block);
    }

    bool enabled_;
    const CacheShape& shape_;
    std::vector<BlockPool>& pools_;  // per group
    PrefixIndex& index_;
    EvictionRanking& ranking_;
    ReuseHints& hints_;
    HostTier& host_;
    DiskTier& disk_;
    int64_t num_duplicates_freed_ = 0;
    int64_t num_queried_tokens_ = 0;
    int64_t num_hit_tokens_ = 0;
};

}  // namespace nvllm
