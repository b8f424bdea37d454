// The tree of block contents and the blocks that hold them.
#include "lib/cache/prefix/prefix_index.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "kernels/error.h"
#include "lib/cache/prefix/prefix_listener.h"

namespace nvllm {
namespace {

constexpr size_t kMaxBucketsAtFirst = size_t{1} << 20;
// Few, so that no step waits for the memory of many.
constexpr size_t kNodesInChunk = 256;

}  // namespace

BlockKey block_key(const HashKey& hash_key, const BlockKey& parent, std::span<const int32_t> tokens,
                   std::string_view extra) {
    FastSipHash128 hash(hash_key);
    hash.add(std::as_bytes(std::span(&parent, 1)));
    hash.add(std::as_bytes(tokens));
    hash.add(std::as_bytes(std::span(extra)));
    return hash.finish();
}

PrefixIndex::PrefixIndex(int32_t block_size, std::span<const int32_t> group_sizes,
                         const HashKey& hash_key)
    : hash_key_(hash_key), block_size_(static_cast<size_t>(block_size)) {
    size_t num_blocks = 1;
    for (const int32_t size : group_sizes) {
        entries_.emplace_back(size);
        num_blocks += static_cast<size_t>(size);
    }
    // A full cache has about as many nodes; adding buckets would delay a step.
    buckets_.resize(std::bit_ceil(std::min(num_blocks, kMaxBucketsAtFirst)));
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
    // Most nodes have no child yet: there is no need to search.
    const bool may_exist = parent == nullptr || parent->num_children > 0;
    PrefixNode* node = may_exist ? find(parent, key, tokens, extra) : nullptr;
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
    chunk.replicas.resize(kNodesInChunk * entries_.size());
    for (size_t i = 0; i < kNodesInChunk; ++i) {
        PrefixNode& node = chunk.nodes[i];
        node.tokens = std::span(chunk.tokens).subspan(i * block_size_, block_size_);
        node.groups = std::span(chunk.replicas).subspan(i * entries_.size(), entries_.size());
        node.next = std::exchange(unused_, &node);
    }
}

void PrefixIndex::unpin(PrefixNode& node) {
    NVLLM_CHECK(node.num_pins > 0, "a node is unpinned twice");
    --node.num_pins;
    drop_if_unneeded(&node);
}

// After the first of the replicas.
void PrefixIndex::insert(PrefixNode& node, int32_t group, BlockId block) {
    std::vector<Entry>& entries = entries_[group];
    NVLLM_CHECK(entries[block].node == nullptr,
                "block " + std::to_string(block) + " is inserted twice");
    BlockReplicas& replicas = node.groups[group];
    if (replicas.num_blocks == 0) {
        replicas.first = block;
        entries[block] = {&node, block, block};
        if (node.parent != nullptr) ++node.parent->groups[group].num_held_children;
    } else {
        const BlockId next = entries[replicas.first].next;
        entries[block] = {&node, replicas.first, next};
        entries[replicas.first].next = entries[next].previous = block;
    }
    ++replicas.num_blocks;
    count(node, node.num_blocks, 1);
}

void PrefixIndex::remove(int32_t group, BlockId block) {
    std::vector<Entry>& entries = entries_[group];
    const Entry entry = std::exchange(entries[block], {});
    NVLLM_CHECK(entry.node != nullptr, "block " + std::to_string(block) + " is not in the index");
    BlockReplicas& replicas = entry.node->groups[group];
    if (--replicas.num_blocks > 0) {
        entries[entry.previous].next = entry.next;
        entries[entry.next].previous = entry.previous;
        if (replicas.first == block) replicas.first = entry.next;
    } else if (entry.node->parent != nullptr) {
        --entry.node->parent->groups[group].num_held_children;
    }
    count(*entry.node, entry.node->num_blocks, -1);
    drop_if_unneeded(entry.node);
}

void PrefixIndex::set_host_block(PrefixNode& node, int32_t group, HostBlockId block) {
    HostBlockId& held = node.groups[group].host_block;
    count(node, node.num_host_blocks, (block != kNoHostBlock) - (held != kNoHostBlock));
    held = block;
    drop_if_unneeded(&node);
}

void PrefixIndex::count(const PrefixNode& node, int32_t& blocks, int32_t change) {
    const bool was_held = node.num_blocks + node.num_host_blocks > 0;
    blocks += change;
    const bool is_held = node.num_blocks + node.num_host_blocks > 0;
    if (listener_ == nullptr || is_held == was_held) return;
    if (is_held) {
        listener_->cached(node.key);
    } else {
        listener_->dropped(node.key);
    }
}

std::optional<BlockId> PrefixIndex::block(const PrefixNode& node, int32_t group) {
    const BlockReplicas& replicas = node.groups[group];
    return replicas.num_blocks > 0 ? std::optional(replicas.first) : std::nullopt;
}

std::vector<BlockId> PrefixIndex::blocks(const PrefixNode& node, int32_t group) const {
    const BlockReplicas& replicas = node.groups[group];
    std::vector<BlockId> blocks;
    for (BlockId block = replicas.first; std::ssize(blocks) < replicas.num_blocks;) {
        blocks.push_back(block);
        block = entries_[group][block].next;
    }
    return blocks;
}

void PrefixIndex::move(int32_t group, BlockId from, BlockId to) {
    std::vector<Entry>& entries = entries_[group];
    NVLLM_CHECK(contains(group, from) && !contains(group, to),
                "a content moves from a block that holds it to a block that holds none");
    const auto renamed = [&](BlockId block) { return block == from ? to : block; };
    Entry entry = std::exchange(entries[from], {});
    entry.previous = renamed(entry.previous);
    entry.next = renamed(entry.next);
    entries[to] = entry;
    entries[entry.previous].next = entries[entry.next].previous = to;
    BlockReplicas& replicas = entries[to].node->groups[group];
    if (replicas.first == from) replicas.first = to;
}

void PrefixIndex::resize(int32_t group, int32_t num_blocks) {
    std::vector<Entry>& entries = entries_[group];
    for (size_t block = static_cast<size_t>(num_blocks); block < entries.size(); ++block) {
        NVLLM_CHECK(entries[block].node == nullptr, "a block of the index is cut off");
    }
    entries.resize(static_cast<size_t>(num_blocks));
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
    const auto is_needed = [](const PrefixNode& one) {
        return one.num_blocks + one.num_host_blocks + one.num_children + one.num_pins > 0;
    };
    while (node != nullptr && !is_needed(*node)) {
        PrefixNode** link = &bucket(node->key);
        while (*link != node) link = &(*link)->next;
        *link = node->next;
        node->next = std::exchange(unused_, node);
        --num_nodes_;
        node = node->parent;
        if (node != nullptr) --node->num_children;
    }
}

void PrefixIndex::check_node(const PrefixNode& node) const {
    int32_t num_blocks = 0;
    for (size_t group = 0; group < entries_.size(); ++group) {
        const std::vector<BlockId> replicas = blocks(node, static_cast<int32_t>(group));
        BlockId previous = replicas.empty() ? 0 : replicas.back();
        for (const BlockId block : replicas) {
            const Entry& entry = entries_[group][block];
            NVLLM_CHECK(entry.node == &node && entry.previous == previous,
                        "a block's entry is wrong");
            previous = block;
            ++num_blocks;
        }
    }
    NVLLM_CHECK(num_blocks == node.num_blocks, "a node's count of blocks is wrong");
    const auto num_host_blocks = std::ranges::count_if(
        node.groups, [](const BlockReplicas& one) { return one.host_block != kNoHostBlock; });
    NVLLM_CHECK(num_host_blocks == node.num_host_blocks, "a node's count of host blocks is wrong");
    NVLLM_CHECK(num_blocks + num_host_blocks + node.num_children + node.num_pins > 0,
                "a node is not needed");
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
    for (const PrefixNode* node : all) children[node].num_held.resize(entries_.size());
    int64_t blocks_in_nodes = 0;
    for (const PrefixNode* node : all) {
        check_node(*node);
        blocks_in_nodes += node->num_blocks;
        if (node->parent == nullptr) continue;
        Children& siblings = children.at(node->parent);
        ++siblings.num_children;
        for (size_t group = 0; group < entries_.size(); ++group) {
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
    for (const auto& group : entries_) {
        for (const Entry& entry : group) blocks_in_nodes -= entry.node != nullptr;
    }
    NVLLM_CHECK(blocks_in_nodes == 0, "a block of the index is in no node");
}

}  // namespace nvllm
