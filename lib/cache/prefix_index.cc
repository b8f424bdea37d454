// The tree of block contents and the blocks that hold them.
#include "lib/cache/prefix_index.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr size_t kMaxBucketsAtFirst = size_t{1} << 20;
// Few, so that no step waits for the memory of many.
constexpr size_t kNodesInChunk = 256;

}  // namespace

PrefixIndex::PrefixIndex(int32_t block_size, std::span<const int32_t> group_sizes,
                         const HashKey& hash_key)
    : hash_key_(hash_key), block_size_(static_cast<size_t>(block_size)) {
    size_t num_blocks = 1;
    for (const int32_t size : group_sizes) {
        places_.emplace_back(size);
        num_blocks += static_cast<size_t>(size);
    }
    // A full cache has about as many contents; adding buckets would hold up a step.
    buckets_.resize(std::bit_ceil(std::min(num_blocks, kMaxBucketsAtFirst)));
}

BlockKey PrefixIndex::key(const BlockKey& parent, std::span<const int32_t> tokens,
                          std::string_view extra) const {
    FastSipHash128 hash(hash_key_);
    hash.add(std::as_bytes(std::span(&parent, 1)));
    hash.add(std::as_bytes(tokens));
    hash.add(std::as_bytes(std::span(extra)));
    return hash.finish();
}

PrefixNode* PrefixIndex::find(const PrefixNode* parent, const BlockKey& key,
                              std::span<const int32_t> tokens, std::string_view extra) {
    for (PrefixNode* node = bucket(key); node != nullptr; node = node->next) {
        if (node->key == key && node->parent == parent && node->extra == extra &&
            std::ranges::equal(node->tokens, tokens)) {
            return node;
        }
    }
    return nullptr;
}

PrefixNode* PrefixIndex::find_or_add(PrefixNode* parent, const BlockKey& key,
                                     std::span<const int32_t> tokens, std::string_view extra) {
    // After most contents nothing is known yet: there is no need to look.
    const bool may_be_known = parent == nullptr || parent->num_children > 0;
    PrefixNode* node = may_be_known ? find(parent, key, tokens, extra) : nullptr;
    if (node == nullptr) {
        NVLLM_CHECK(tokens.size() == block_size_, "a content is a full block");
        node = &new_node(key);
        node->parent = parent;
        std::ranges::copy(tokens, node->tokens.begin());
        node->extra = extra;
        if (parent != nullptr) {
            node->depth = parent->depth + 1;
            ++parent->num_children;
        }
    }
    pin(*node);
    return node;
}

PrefixNode& PrefixIndex::new_node(const BlockKey& key) {
    if (num_nodes_ == buckets_.size()) add_buckets();
    if (unused_ == nullptr) add_chunk();
    PrefixNode& node = *unused_;
    unused_ = node.next;
    node = {
        .key = key, .next = bucket(key), .tokens = node.tokens, .groups = node.groups, .extra = {}};
    std::ranges::fill(node.groups, BlockReplicas{});
    bucket(key) = &node;
    ++num_nodes_;
    return node;
}

void PrefixIndex::add_buckets() {
    std::vector<PrefixNode*> before(2 * buckets_.size());
    before.swap(buckets_);
    for (PrefixNode* node : before) {
        while (node != nullptr) {
            PrefixNode* next = std::exchange(node->next, bucket(node->key));
            bucket(node->key) = node;
            node = next;
        }
    }
}

void PrefixIndex::add_chunk() {
    Chunk& chunk = chunks_.emplace_back();
    chunk.nodes.resize(kNodesInChunk);
    chunk.tokens.resize(kNodesInChunk * block_size_);
    chunk.holders.resize(kNodesInChunk * places_.size());
    for (size_t i = 0; i < kNodesInChunk; ++i) {
        PrefixNode& node = chunk.nodes[i];
        node.tokens = std::span(chunk.tokens).subspan(i * block_size_, block_size_);
        node.groups = std::span(chunk.holders).subspan(i * places_.size(), places_.size());
        node.next = std::exchange(unused_, &node);
    }
}

void PrefixIndex::unpin(PrefixNode& node) {
    NVLLM_CHECK(node.num_pins > 0, "a node is unpinned twice");
    --node.num_pins;
    drop_if_unneeded(&node);
}

// Behind the first of those that hold the same.
void PrefixIndex::publish(PrefixNode& node, int32_t group, BlockId block) {
    std::vector<Place>& places = places_[group];
    NVLLM_CHECK(places[block].node == nullptr,
                "block " + std::to_string(block) + " is published twice");
    BlockReplicas& holders = node.groups[group];
    if (holders.num_blocks == 0) {
        holders.first = block;
        places[block] = {&node, block, block};
        if (node.parent != nullptr) ++node.parent->groups[group].num_held_children;
    } else {
        const BlockId next = places[holders.first].next;
        places[block] = {&node, holders.first, next};
        places[holders.first].next = places[next].previous = block;
    }
    ++holders.num_blocks;
    ++node.num_blocks;
}

void PrefixIndex::withdraw(int32_t group, BlockId block) {
    std::vector<Place>& places = places_[group];
    const Place place = std::exchange(places[block], {});
    NVLLM_CHECK(place.node != nullptr, "block " + std::to_string(block) + " is not published");
    BlockReplicas& holders = place.node->groups[group];
    if (--holders.num_blocks > 0) {
        places[place.previous].next = place.next;
        places[place.next].previous = place.previous;
        if (holders.first == block) holders.first = place.next;
    } else if (place.node->parent != nullptr) {
        --place.node->parent->groups[group].num_held_children;
    }
    --place.node->num_blocks;
    drop_if_unneeded(place.node);
}

std::optional<BlockId> PrefixIndex::block(const PrefixNode& node, int32_t group) {
    const BlockReplicas& holders = node.groups[group];
    return holders.num_blocks > 0 ? std::optional(holders.first) : std::nullopt;
}

std::vector<BlockId> PrefixIndex::blocks(const PrefixNode& node, int32_t group) const {
    const BlockReplicas& holders = node.groups[group];
    std::vector<BlockId> blocks;
    for (BlockId block = holders.first; std::ssize(blocks) < holders.num_blocks;) {
        blocks.push_back(block);
        block = places_[group][block].next;
    }
    return blocks;
}

void PrefixIndex::move(int32_t group, BlockId from, BlockId to) {
    std::vector<Place>& places = places_[group];
    NVLLM_CHECK(is_published(group, from) && !is_published(group, to),
                "a content moves from where it is to where none is");
    const auto renamed = [&](BlockId block) { return block == from ? to : block; };
    Place place = std::exchange(places[from], {});
    place.previous = renamed(place.previous);
    place.next = renamed(place.next);
    places[to] = place;
    places[place.previous].next = places[place.next].previous = to;
    BlockReplicas& holders = places[to].node->groups[group];
    if (holders.first == from) holders.first = to;
}

void PrefixIndex::resize(int32_t group, int32_t num_blocks) {
    std::vector<Place>& places = places_[group];
    for (size_t block = static_cast<size_t>(num_blocks); block < places.size(); ++block) {
        NVLLM_CHECK(places[block].node == nullptr, "a published block is cut off");
    }
    places.resize(static_cast<size_t>(num_blocks));
}

std::vector<const PrefixNode*> PrefixIndex::nodes() const {
    std::vector<const PrefixNode*> nodes;
    nodes.reserve(num_nodes_);
    for (const PrefixNode* node : buckets_) {
        for (; node != nullptr; node = node->next) nodes.push_back(node);
    }
    return nodes;
}

// Dropping a node may leave its parent unneeded, and so on towards the first block.
void PrefixIndex::drop_if_unneeded(PrefixNode* node) {
    while (node != nullptr && node->num_blocks + node->num_children + node->num_pins == 0) {
        PrefixNode** place = &bucket(node->key);
        while (*place != node) place = &(*place)->next;
        *place = node->next;
        node->next = std::exchange(unused_, node);
        --num_nodes_;
        node = node->parent;
        if (node != nullptr) --node->num_children;
    }
}

void PrefixIndex::check_node(const PrefixNode& node) const {
    int32_t num_blocks = 0;
    for (size_t group = 0; group < places_.size(); ++group) {
        const std::vector<BlockId> holders = blocks(node, static_cast<int32_t>(group));
        BlockId previous = holders.empty() ? 0 : holders.back();
        for (const BlockId block : holders) {
            const Place& place = places_[group][block];
            NVLLM_CHECK(place.node == &node && place.previous == previous,
                        "a block's place is wrong");
            previous = block;
            ++num_blocks;
        }
    }
    NVLLM_CHECK(num_blocks == node.num_blocks, "a node's count of blocks is wrong");
    NVLLM_CHECK(num_blocks + node.num_children + node.num_pins > 0, "a node that nobody needs");
    NVLLM_CHECK(node.parent == nullptr || node.depth == node.parent->depth + 1,
                "a node's depth is wrong");
}

void PrefixIndex::check_integrity() const {
    struct Children {
        int32_t num_children = 0;
        std::vector<int32_t> num_held;  // per group
    };
    const std::vector<const PrefixNode*> all = nodes();
    NVLLM_CHECK(all.size() == num_nodes_, "the count of nodes is wrong");
    std::unordered_map<const PrefixNode*, Children> children;
    for (const PrefixNode* node : all) children[node].num_held.resize(places_.size());
    int64_t blocks_in_nodes = 0;
    for (const PrefixNode* node : all) {
        check_node(*node);
        blocks_in_nodes += node->num_blocks;
        if (node->parent == nullptr) continue;
        Children& siblings = children.at(node->parent);
        ++siblings.num_children;
        for (size_t group = 0; group < places_.size(); ++group) {
            siblings.num_held[group] += node->groups[group].num_blocks > 0;
        }
    }
    for (const auto& [node, counted] : children) {
        NVLLM_CHECK(node->num_children == counted.num_children,
                    "a node's count of children is wrong");
        NVLLM_CHECK(std::ranges::equal(node->groups, counted.num_held, {},
                                       &BlockReplicas::num_held_children),
                    "a node's count of children with blocks is wrong");
    }
    for (const auto& group : places_) {
        for (const Place& place : group) blocks_in_nodes -= place.node != nullptr;
    }
    NVLLM_CHECK(blocks_in_nodes == 0, "a published block is in no node");
}

}  // namespace nvllm
