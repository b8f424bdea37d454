// The second tier of the prefix cache: contents in host memory.
//
// The content of a block goes there when the last device block that holds it is evicted. When a
// sequence is admitted that begins with it, it comes back into another block, and stays in host
// memory too: evicting that block costs no copy. Contents that were used least recently leave when
// host blocks are needed. The host blocks are SwapSpace's, where sequences that are swapped out
// come first.
//
// The disk tier passes through host blocks: to one that it reads or writes it has a reference, so
// that the block stays taken even where its content is given up before.
//
// Copies are collected here. The next plan carries them out, all copies to the host before any
// other of its copies, and all copies from there after them. Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "lib/cache/prefix/prefix_index.h"
#include "lib/cache/swap_space.h"
#include "lib/cache/tiers/tier_stats.h"

namespace nvllm {

class HostTier {
  public:
    // Not `enabled`: nothing is kept.
    HostTier(bool enabled, PrefixIndex& index, SwapSpace& space, int32_t num_groups);
    HostTier(const HostTier&) = delete;
    HostTier& operator=(const HostTier&) = delete;

    // The block, which the index still has, is evicted: its content is copied to a host block if
    // there is one, and if no other device block holds it.
    void keep(PrefixNode& node, int32_t group, BlockId block);
    // The content is not given up before the next take_moves(). REQUIRES: it is held.
    void reserve(const PrefixNode& node, int32_t group);
    // The content is copied to a device block. REQUIRES: it is reserved.
    void bring_back(const PrefixNode& node, int32_t group, BlockId to);
    // The block has another owner now: what was to be copied to it is not.
    void retarget(int32_t group, BlockId block);

    // The content may be wrong.
    void forget(const PrefixNode& node, int32_t group);

    // A host block with the content, and a reference to it for the caller; the content is copied
    // there where it is in none yet, and is the next one to be dropped. Nothing: there is no room,
    // or no block has the content.
    std::optional<HostBlockId> stage(PrefixNode& node, int32_t group);
    // What the block holds is the content now, unless another one holds it. REQUIRES: the caller
    // has a reference, and keeps it.
    void add(PrefixNode& node, int32_t group, HostBlockId block);
    // Free blocks, and those that can be made free; O(contents).
    int32_t num_available(int32_t group) const;

    // Makes so many host blocks of the group free; false if that cannot be.
    bool make_room(int32_t group, int32_t count);
    // Drops all contents and copies.
    void clear();

    // Blocks that were evicted since the last call of take_moves() are written to outside of plans:
    // their contents are not kept after all.
    void cancel_keeps();
    bool has_moves() const { return !out_.empty() || !in_.empty(); }
    // Appends the copies to those of a plan.
    void take_moves(std::vector<SwapMove>& out, std::vector<SwapMove>& in);

    int32_t num_held(int32_t group) const {
        return static_cast<int32_t>(groups_[group].order.size());
    }
    // `stats.hit_tokens` are those of the calls.
    void count_hits(int32_t num_tokens) { counts_.hit_tokens += num_tokens; }
    TierStats stats() const;
    // Of each content, the node and its host block.
    template <typename Visit>
    void visit(int32_t group, Visit visit) const {
        for (const Held& held : groups_[group].order) visit(*held.node, held.block);
    }

  private:
    struct Held {
        PrefixNode* node;
        HostBlockId block;
        bool is_reserved = false;
    };
    using Order = std::list<Held>;
    struct Group {
        Order order;                          // the one to be dropped first is the first
        std::vector<Order::iterator> places;  // of each host block; the end: it holds none
    };

    bool may_drop(int32_t group, const Held& held) const;
    void touch(int32_t group, HostBlockId block);
    bool drop_oldest(int32_t group);
    void drop(int32_t group, Order::iterator held);

    bool enabled_;
    PrefixIndex& index_;
    SwapSpace& space_;
    std::vector<Group> groups_;
    std::vector<SwapMove> out_;
    std::vector<SwapMove> in_;
    std::vector<Order::iterator> reserved_;
    TierStats counts_;  // without what is held
};

}  // namespace nvllm
