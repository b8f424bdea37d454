// Finds blocks by what they hold: full blocks of tokens after a given prefix.
//
// The contents form a tree: a node is one block's tokens (and extra key bytes) after its parent's.
// Nodes are found by a keyed 128-bit hash chained along the path, and a hit counts only when
// parent, tokens and extra bytes are equal themselves: a collision costs time, never correctness.
// Several blocks, in several cache groups, may hold one node's content.
//
// A node lives as long as a block holds its content, it has children, or it is pinned: children
// stay reachable when their parent's blocks are reused. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/cache/block_pool.h"
#include "lib/cache/siphash.h"

namespace nvllm {

using BlockKey = Hash128;

// What one full block holds. Made, changed and dropped by PrefixIndex only.
struct PrefixNode {
    BlockKey key;
    PrefixNode* parent = nullptr;  // none for the first block of a sequence
    std::vector<int32_t> tokens;
    std::string extra;
    std::vector<std::vector<BlockId>> blocks;  // per cache group
    int32_t num_blocks = 0;                    // in all groups
    int32_t num_children = 0;
    std::vector<int32_t> held_children;  // per cache group, those with a block in it
    int32_t num_pins = 0;
    int32_t depth = 0;  // blocks before it

    // How it was used, kept by CacheManager. A tick is one block asked for.
    int64_t num_hits = 0;      // sequences that found it in the cache
    int64_t last_use = 0;      // tick
    double recent_uses = 1.0;  // fading, see BlockUse
    int32_t num_expected = 0;  // waiting sequences that will ask for it
};

class PrefixIndex {
  public:
    // `group_sizes`: blocks in each cache group.
    PrefixIndex(std::span<const int32_t> group_sizes, const HashKey& hash_key);
    PrefixIndex(const PrefixIndex&) = delete;
    PrefixIndex& operator=(const PrefixIndex&) = delete;

    // The key of a block of tokens after the block with key `parent` (all zero for a first block).
    // `extra` is whatever else the block's content depends on, see CacheKeyExtras.
    BlockKey key(const BlockKey& parent, std::span<const int32_t> tokens,
                 std::string_view extra) const;

    // The node with exactly this content, or null. `parent` is null for a first block.
    PrefixNode* find(const PrefixNode* parent, const BlockKey& key, std::span<const int32_t> tokens,
                     std::string_view extra);
    // The same, made when it is not there; pinned once more either way.
    PrefixNode* find_or_add(PrefixNode* parent, const BlockKey& key,
                            std::span<const int32_t> tokens, std::string_view extra);
    void pin(PrefixNode& node) { ++node.num_pins; }
    // The node may be gone afterwards.
    void unpin(PrefixNode& node);

    // `block` holds the node's content. REQUIRES: the block is not published.
    void publish(PrefixNode& node, int32_t group, BlockId block);
    // The block's content is not to be found any more. REQUIRES: the block is published.
    void withdraw(int32_t group, BlockId block);
    // One block of the group with the content of the node.
    static std::optional<BlockId> block(const PrefixNode& node, int32_t group);

    bool is_published(int32_t group, BlockId block) const { return node(group, block) != nullptr; }
    // What the block holds; null when it is not published.
    PrefixNode* node(int32_t group, BlockId block) const { return places_[group][block].node; }
    // Another block holds the content from now on. REQUIRES: `from` is published, `to` is not.
    void move(int32_t group, BlockId from, BlockId to);
    // REQUIRES: no block that is cut off is published.
    void resize(int32_t group, int32_t num_blocks);

    // All contents, in no order.
    std::vector<const PrefixNode*> nodes() const;
    int64_t num_nodes() const { return static_cast<int64_t>(nodes_.size()); }

    // Throws internal when the tree and the blocks' places in it disagree; O(blocks and nodes), for
    // tests.
    void check_integrity() const;

  private:
    struct KeyHash {
        size_t operator()(const BlockKey& key) const { return key.low; }
    };
    // Where a block stands: node->blocks[group][place]. Null node: not published.
    struct Place {
        PrefixNode* node = nullptr;
        size_t place = 0;
    };

    using Nodes = std::unordered_multimap<BlockKey, PrefixNode, KeyHash>;
    static constexpr size_t kMostSpare = 4096;

    PrefixNode& new_node(const BlockKey& key);
    void drop_if_unneeded(PrefixNode* node);

    HashKey hash_key_;
    Nodes nodes_;
    std::vector<Nodes::node_type> spare_;     // dropped, for contents to come
    std::vector<std::vector<Place>> places_;  // per group, per block
};

}  // namespace nvllm
