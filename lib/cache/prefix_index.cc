// The tree of block contents and the blocks that hold them.
#include "lib/cache/prefix_index.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr size_t kMostReserved = size_t{1} << 20;

}  // namespace

PrefixIndex::PrefixIndex(std::span<const int32_t> group_sizes, const HashKey& hash_key)
    : hash_key_(hash_key) {
    size_t num_blocks = 0;
    for (const int32_t size : group_sizes) {
        places_.emplace_back(size);
        num_blocks += static_cast<size_t>(size);
    }
    // A full cache has at least as many contents; growing step by step would hold up steps.
    nodes_.reserve(std::min(num_blocks, kMostReserved));
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
    const auto [begin, end] = nodes_.equal_range(key);
    for (auto entry = begin; entry != end; ++entry) {
        PrefixNode& node = entry->second;
        if (node.parent == parent && node.extra == extra &&
            std::ranges::equal(node.tokens, tokens)) {
            return &node;
        }
    }
    return nullptr;
}

PrefixNode* PrefixIndex::find_or_add(PrefixNode* parent, const BlockKey& key,
                                     std::span<const int32_t> tokens, std::string_view extra) {
    PrefixNode* node = find(parent, key, tokens, extra);
    if (node == nullptr) {
        node = &new_node(key);
        node->parent = parent;
        node->tokens.assign(tokens.begin(), tokens.end());
        node->extra = extra;
        if (parent != nullptr) {
            node->depth = parent->depth + 1;
            ++parent->num_children;
        }
    }
    pin(*node);
    return node;
}

// In a full cache every new content takes the place of another one: the memory of that one is used
// again, because giving it back takes longer than all else about an eviction.
PrefixNode& PrefixIndex::new_node(const BlockKey& key) {
    PrefixNode* node = nullptr;
    if (spare_.empty()) {
        node = &nodes_
                    .emplace(std::piecewise_construct, std::forward_as_tuple(key),
                             std::forward_as_tuple())
                    ->second;
        node->blocks.resize(places_.size());
    } else {
        spare_.back().key() = key;
        node = &nodes_.insert(std::move(spare_.back()))->second;
        spare_.pop_back();
        // Empty lists of blocks, with room.
        std::vector<std::vector<BlockId>> blocks = std::move(node->blocks);
        std::vector<int32_t> tokens = std::move(node->tokens);
        std::vector<int32_t> held_children = std::move(node->held_children);
        *node = {};
        node->blocks = std::move(blocks);
        node->tokens = std::move(tokens);
        node->held_children = std::move(held_children);
    }
    node->held_children.assign(places_.size(), 0);
    node->key = key;
    return *node;
}

void PrefixIndex::unpin(PrefixNode& node) {
    NVLLM_CHECK(node.num_pins > 0, "a node is unpinned twice");
    --node.num_pins;
    drop_if_unneeded(&node);
}

void PrefixIndex::publish(PrefixNode& node, int32_t group, BlockId block) {
    Place& place = places_[group][block];
    NVLLM_CHECK(place.node == nullptr, "block " + std::to_string(block) + " is published twice");
    place = {&node, node.blocks[group].size()};
    node.blocks[group].push_back(block);
    ++node.num_blocks;
    if (node.parent != nullptr && node.blocks[group].size() == 1) {
        ++node.parent->held_children[group];
    }
}

void PrefixIndex::withdraw(int32_t group, BlockId block) {
    const Place place = places_[group][block];
    NVLLM_CHECK(place.node != nullptr, "block " + std::to_string(block) + " is not published");
    std::vector<BlockId>& blocks = place.node->blocks[group];
    const BlockId last = blocks.back();
    blocks[place.place] = last;
    places_[group][last].place = place.place;
    blocks.pop_back();
    places_[group][block] = {};
    --place.node->num_blocks;
    PrefixNode* parent = place.node->parent;
    if (parent != nullptr && blocks.empty()) --parent->held_children[group];
    drop_if_unneeded(place.node);
}

std::optional<BlockId> PrefixIndex::block(const PrefixNode& node, int32_t group) {
    if (node.blocks[group].empty()) return std::nullopt;
    return node.blocks[group].front();
}

void PrefixIndex::move(int32_t group, BlockId from, BlockId to) {
    const Place place = places_[group][from];
    NVLLM_CHECK(place.node != nullptr && !is_published(group, to),
                "a content moves from where it is to where none is");
    place.node->blocks[group][place.place] = to;
    places_[group][to] = place;
    places_[group][from] = {};
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
    for (const auto& [key, node] : nodes_) nodes.push_back(&node);
    return nodes;
}

// Dropping a node may leave its parent unneeded, and so on towards the first block.
void PrefixIndex::drop_if_unneeded(PrefixNode* node) {
    while (node != nullptr && node->num_blocks + node->num_children + node->num_pins == 0) {
        PrefixNode* parent = node->parent;
        auto [entry, end] = nodes_.equal_range(node->key);
        while (&entry->second != node) ++entry;
        Nodes::node_type dropped = nodes_.extract(entry);
        if (spare_.size() < kMostSpare) spare_.push_back(std::move(dropped));
        if (parent != nullptr) --parent->num_children;
        node = parent;
    }
}

void PrefixIndex::check_integrity() const {
    int64_t blocks_in_nodes = 0;
    std::unordered_map<const PrefixNode*, int32_t> children;
    std::unordered_map<const PrefixNode*, std::vector<int32_t>> held;
    for (const auto& [key, node] : nodes_) {
        int32_t blocks = 0;
        for (size_t group = 0; group < node.blocks.size(); ++group) {
            blocks += static_cast<int32_t>(node.blocks[group].size());
            for (size_t place = 0; place < node.blocks[group].size(); ++place) {
                const Place& known = places_[group][node.blocks[group][place]];
                NVLLM_CHECK(known.node == &node && known.place == place,
                            "a block's place is wrong");
            }
        }
        NVLLM_CHECK(blocks == node.num_blocks, "a node's count of blocks is wrong");
        NVLLM_CHECK(blocks + node.num_children + node.num_pins > 0, "a node that nobody needs");
        blocks_in_nodes += blocks;
        if (node.parent == nullptr) continue;
        ++children[node.parent];
        NVLLM_CHECK(node.depth == node.parent->depth + 1, "a node's depth is wrong");
        auto& counts = held.try_emplace(node.parent, places_.size(), 0).first->second;
        for (size_t group = 0; group < counts.size(); ++group) {
            counts[group] += !node.blocks[group].empty();
        }
    }
    for (const auto& [key, node] : nodes_) {
        const auto found = children.find(&node);
        NVLLM_CHECK(node.num_children == (found == children.end() ? 0 : found->second),
                    "a node's count of children is wrong");
        const auto holders = held.find(&node);
        NVLLM_CHECK(
            node.held_children ==
                (holders == held.end() ? std::vector<int32_t>(places_.size(), 0) : holders->second),
            "a node's count of children with blocks is wrong");
    }
    for (const auto& group : places_) {
        for (const Place& place : group) blocks_in_nodes -= place.node != nullptr;
    }
    NVLLM_CHECK(blocks_in_nodes == 0, "a published block is in no node");
}

}  // namespace nvllm
