// Finds blocks by their content: full blocks of tokens after a given prefix.
//
// The contents form a tree: a node is one block's tokens (and extra key bytes) after its parent's.
// Nodes are found by a keyed 128-bit hash chained along the path, and a hit counts only when
// parent, tokens and extra bytes are equal themselves: a collision costs time, never correctness.
// Several blocks, in several cache groups, may hold one node's content.
//
// A node lives as long as a block or a host block holds its content, it has children, or it is
// pinned: children stay reachable when their parent's blocks are reused. Nodes lie in chunks, with
// their tokens next to them, and are reused: inserting a block allocates nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/cache/block_pool.h"
#include "lib/cache/prefix/siphash.h"
#include "lib/cache/swap_space.h"

namespace nvllm {

using BlockKey = Hash128;

class PrefixListener;

// The key of a block of tokens after the block with key `parent` (all zero for a first block).
// `extra`: further bytes that the block's content depends on, see CacheKeyExtras.
BlockKey block_key(const HashKey& hash_key, const BlockKey& parent, std::span<const int32_t> tokens,
                   std::string_view extra);

constexpr HostBlockId kNoHostBlock = -1;

// The blocks of one cache group that hold one content.
struct BlockReplicas {
    BlockId first = 0;       // the others follow it, see PrefixIndex::blocks()
    int32_t num_blocks = 0;  // that hold the content; `first` is valid if there is one
    int32_t num_held_children = 0;
    HostBlockId host_block = kNoHostBlock;  // that holds it, too
};

// The content of one full block. Made, changed and dropped by PrefixIndex only.
struct PrefixNode {
    BlockKey key;
    PrefixNode* next = nullptr;    // in its bucket, or of the unused ones
    PrefixNode* parent = nullptr;  // none for the first block of a sequence
    std::span<int32_t> tokens;
    std::span<BlockReplicas> groups;
    std::string extra;
    int32_t num_blocks = 0;       // in all groups
    int32_t num_host_blocks = 0;  // alike
    int32_t num_children = 0;
    int32_t num_pins = 0;
    int32_t depth = 0;  // blocks before it

    // Eviction metadata, written by EvictionRanking and ReuseHints. A tick is one block asked for.
    int64_t num_hits = 0;      // sequences that found it in the cache
    int64_t last_use = 0;      // tick
    double recent_uses = 1.0;  // decays, see BlockUse
    int32_t num_expected = 0;  // waiting sequences that will ask for it

    bool has_host_block(int32_t group) const { return groups[group].host_block != kNoHostBlock; }
    // Whether a block of the group has the content, on the device or in host memory.
    bool is_held(int32_t group) const {
        return groups[group].num_blocks > 0 || has_host_block(group);
    }
};

class PrefixIndex {
  public:
    // `block_size`: tokens of a content. `group_sizes`: blocks in each cache group.
    PrefixIndex(int32_t block_size, std::span<const int32_t> group_sizes, const HashKey& hash_key);
    PrefixIndex(const PrefixIndex&) = delete;
    PrefixIndex& operator=(const PrefixIndex&) = delete;

    int32_t block_size() const { return static_cast<int32_t>(block_size_); }

    // block_key() with this index's hash key.
    BlockKey key(const BlockKey& parent, std::span<const int32_t> tokens,
                 std::string_view extra) const {
        return block_key(hash_key_, parent, tokens, extra);
    }
    // Told from now on; must outlive the index. REQUIRES: the index is empty.
    void set_listener(PrefixListener* listener) { listener_ = listener; }

    // The node with exactly this content, or null. `parent` is null for a first block.
    PrefixNode* find(const PrefixNode* parent, const BlockKey& key, std::span<const int32_t> tokens,
                     std::string_view extra);
    // The same node, added if it does not exist; pinned once more either way. REQUIRES: block_size
    // tokens.
    PrefixNode* find_or_add(PrefixNode* parent, const BlockKey& key,
                            std::span<const int32_t> tokens, std::string_view extra);
    void pin(PrefixNode& node) { ++node.num_pins; }
    // The node may be dropped.
    void unpin(PrefixNode& node);

    // `block` holds the node's content. REQUIRES: the block is not in the index.
    void insert(PrefixNode& node, int32_t group, BlockId block);
    // The block's content cannot be found any more. REQUIRES: the block is in the index.
    void remove(int32_t group, BlockId block);
    // The host block that holds the content, or kNoHostBlock. The node may be dropped.
    void set_host_block(PrefixNode& node, int32_t group, HostBlockId block);
    // One block of the group with the content of the node: the one inserted first.
    static std::optional<BlockId> block(const PrefixNode& node, int32_t group);
    // All of them, the first inserted one first.
    std::vector<BlockId> blocks(const PrefixNode& node, int32_t group) const;

    bool contains(int32_t group, BlockId block) const { return node(group, block) != nullptr; }
    // The node whose content the block holds; null if the block is not in the index.
    PrefixNode* node(int32_t group, BlockId block) const { return entries_[group][block].node; }
    // Another block holds the content from now on. REQUIRES: `from` is in the index, `to` is not.
    void move(int32_t group, BlockId from, BlockId to);
    // REQUIRES: no block that is cut off is in the index.
    void resize(int32_t group, int32_t num_blocks);

    // All nodes, in no order.
    std::vector<const PrefixNode*> nodes() const;
    int64_t num_nodes() const { return static_cast<int64_t>(num_nodes_); }

    // Throws internal if the tree and the blocks' entries disagree; O(blocks and nodes), for tests.
    void check_integrity() const;

  private:
    // The node whose content a block holds, and the block's neighbours in the ring of replicas.
    // Null node: the block is not in the index.
    struct Entry {
        PrefixNode* node = nullptr;
        BlockId previous = 0;
        BlockId next = 0;
    };
    // Nodes, with memory for the tokens and replicas of each.
    struct Chunk {
        std::vector<PrefixNode> nodes;
        std::vector<int32_t> tokens;
        std::vector<BlockReplicas> replicas;
    };

    PrefixNode*& bucket(const BlockKey& key) { return buckets_[key.low & (buckets_.size() - 1)]; }
    void add_buckets();
    PrefixNode& new_node(const BlockKey& key);
    void add_chunk();
    void drop_if_unneeded(PrefixNode* node);
    void count(const PrefixNode& node, int32_t& blocks, int32_t change);
    void check_node(const PrefixNode& node) const;

    HashKey hash_key_;
    size_t block_size_;
    PrefixListener* listener_ = nullptr;
    std::vector<PrefixNode*> buckets_;  // a power of two
    size_t num_nodes_ = 0;
    std::vector<Chunk> chunks_;
    PrefixNode* unused_ = nullptr;             // the one to be used next
    std::vector<std::vector<Entry>> entries_;  // per group, per block
};

}  // namespace nvllm
