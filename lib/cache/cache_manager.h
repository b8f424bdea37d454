// Which blocks each sequence has, shares or gives up, in every cache group.
//
// A sequence has one table for each group of layers whose keys and values have the same shape and
// reach. Full blocks of committed tokens are published: another sequence that begins with the same
// tokens takes them instead of computing them. Published blocks that nobody uses stay findable
// until they are reused, longest unused first.
//
// Plans are numbered; several may be uncommitted at once. A block that a sequence gives up is
// reused only after the last plan that named the sequence is committed.
//
// Blocks to copy are handed out by the calls that want them copied, before anything is computed.
// Carried out in the order of the calls they are right, whatever was given up and taken in between.
//
// The engine thread owns it: no locks. It outlives every SequenceBlocks made for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/error.h"
#include "lib/base/result.h"
#include "lib/cache/block_pool.h"
#include "lib/cache/block_table.h"
#include "lib/cache/cache_stats.h"
#include "lib/cache/compaction.h"
#include "lib/cache/eviction.h"
#include "lib/cache/prefix_index.h"
#include "lib/cache/sequence_blocks.h"
#include "lib/cache/siphash.h"
#include "lib/cache/swap_space.h"

namespace nvllm {

struct CacheGroupConfig {
    int32_t num_blocks = 0;
    int32_t window = 0;           // positions a query reads, itself included; 0: all
    int32_t num_host_blocks = 0;  // for sequences that are swapped out
};

struct CacheConfig {
    int32_t block_size = 16;  // positions in a block, the same in every group
    std::vector<CacheGroupConfig> groups;
    bool enable_prefix_caching = true;
    std::optional<HashKey> hash_key =
        std::nullopt;              // of the block keys; empty: drawn for this process
    std::string eviction = "lru";  // a row of eviction.cc
    EvictionCosts eviction_costs = {};
};

// The longest cached prefix of a list of tokens. Valid until the next change of the cache.
struct PrefixMatch {
    int32_t num_tokens = 0;             // whole blocks only
    std::vector<PrefixNode*> contents;  // of the matched blocks
};

class CacheManager {
  public:
    // Throws bad_config when a size is below one, there is no group, or no such eviction policy.
    explicit CacheManager(const CacheConfig& config);
    CacheManager(const CacheManager&) = delete;
    CacheManager& operator=(const CacheManager&) = delete;

    int32_t block_size() const { return config_.block_size; }
    int32_t num_groups() const { return static_cast<int32_t>(pools_.size()); }
    // Blocks that hold so many positions from a sequence's first on.
    int32_t num_blocks_for(int32_t num_positions) const;
    bool prefix_caching() const { return config_.enable_prefix_caching; }
    // Positions that a query of the group reads, itself included; 0: all.
    int32_t window(int32_t group) const { return config_.groups[group].window; }
    // Blocks asked for so far: the clock of PrefixNode::last_use.
    int64_t tick() const { return tick_; }

    // The longest prefix of `tokens` that every group still holds as far as its window reaches
    // back. At least the last token is left over: its logits are wanted. Takes nothing. REQUIRES:
    // `tokens` begin with those of earlier calls.
    PrefixMatch match(SequenceBlocks& sequence, std::span<const int32_t> tokens);

    // Blocks of a group that a sequence of `num_tokens` holds at most at any time, when it computes
    // `largest_step` tokens at once.
    int32_t most_blocks(int32_t group, int32_t num_tokens, int32_t largest_step) const;

    // Takes the matched blocks, and blocks for the rest of `tokens` - as far as most_blocks() - so
    // that computing them cannot fail for want of blocks. False, with nothing changed, when fewer
    // than `headroom` blocks of a group would be left over. REQUIRES: the sequence is empty; the
    // match is of the same tokens.
    bool admit(SequenceBlocks& sequence, const PrefixMatch& match, int32_t num_tokens,
               int32_t largest_step, int32_t headroom);

    // Blocks of the group that admit() with these arguments would be short of; none: 0.
    int32_t num_missing(int32_t group, const PrefixMatch& match, int32_t num_tokens,
                        int32_t largest_step, int32_t headroom) const;

    // Blocks for positions below `num_positions`, in all groups or none (false). What is appended
    // to the tables is also appended to `added`, one list a group; `added` stays empty when nothing
    // was needed.
    bool allocate(SequenceBlocks& sequence, int32_t num_positions,
                  std::vector<std::vector<BlockId>>& added) {
        if (!holds(sequence, num_positions) && !append_blocks(sequence, num_positions, added)) {
            return false;
        }
        sequence.num_positions_ = std::max(sequence.num_positions_, num_positions);
        return true;
    }

    // The tokens of a sequence that waits: under a policy that heeds it, what is cached of them, or
    // will be, is certain to be asked for. Holds until the sequence is let in or released, or the
    // next call. Takes no block. REQUIRES: what match() requires.
    void expect(SequenceBlocks& sequence, std::span<const int32_t> tokens);
    void forget_expectation(SequenceBlocks& sequence);

    // `child` goes on from `parent`: shares the blocks of its first `num_positions` positions in
    // all groups. Both must make private what they write to. REQUIRES: `child` is empty, of the
    // same extras, and its tokens begin with the parent's first `num_positions`, which reach at
    // least as far as those that are committed.
    void fork(SequenceBlocks& child, const SequenceBlocks& parent,
              int32_t num_positions = std::numeric_limits<int32_t>::max());
    // Before position `next_position` and later ones are written: blocks from there on that others
    // refer to are replaced in the table by new ones, told in `changes`; one that holds earlier
    // positions is to be copied, told in `copies`. False, with nothing changed, when blocks are
    // lacking. REQUIRES: the block of `next_position` is not published by this sequence.
    bool make_last_block_private(SequenceBlocks& sequence, int32_t next_position,
                                 std::vector<BlockMove>& copies, std::vector<TableChange>& changes);

    // Gives up the device blocks; the content of the first `num_positions` is to be copied to host
    // blocks, told in `moves`. Blocks that others share or find stay with them. False, with nothing
    // changed, when host blocks are lacking in a group. REQUIRES: not empty, not swapped out, and
    // nothing of it is in flight.
    bool swap_out(SequenceBlocks& sequence, int32_t num_positions, std::vector<SwapMove>& moves);
    // The other way; contents still found on the device are shared and not copied. False, with
    // nothing changed, when fewer than `headroom` blocks of a group would be left over. The host
    // blocks are free when the next plan that names the sequence is committed. REQUIRES: swapped
    // out.
    bool swap_in(SequenceBlocks& sequence, int32_t headroom, std::vector<SwapMove>& moves);

    // Moves blocks so that all of group g that are used, and as many cached ones as fit, lie below
    // targets[g]; the rest of the cached ones is dropped in the order of eviction. The tables are
    // changed at once, so the moves must be carried out before the next plan computes. A fault,
    // with nothing changed, while a plan is uncommitted or when what is used does not fit.
    Result<Compaction> compact(std::span<const int32_t> targets);
    // New numbers of blocks, while sequences live. Growing is always possible; a group that shrinks
    // must have been compacted: a fault, with nothing changed, when a block to be cut off is not
    // free.
    std::optional<Fault> resize(std::span<const int32_t> num_blocks);
    // Of the group where it is worst, as in figures(). O(blocks).
    double fragmentation() const;
    // Whether a group's fragmentation is above the threshold (0 to 1).
    bool needs_defragmentation(double threshold) const;

    // The plan with this number reads or writes the sequence's blocks. REQUIRES: numbers do not
    // fall.
    void name_in_plan(SequenceBlocks& sequence, uint64_t plan_number) {
        NVLLM_CHECK(plan_number >= sequence.last_plan_, "plans are numbered upwards");
        sequence.last_plan_ = last_named_plan_ = plan_number;
        if (!sequence.returning_.empty()) part_with_host_blocks(sequence, plan_number);
    }
    // All plans up to this one are committed: blocks given up under them can be reused.
    void plan_committed(uint64_t plan_number);

    // Whether blocks were given up that an uncommitted plan still names.
    bool awaits_commit() const { return !parted_.empty(); }

    // The first `num_computed` of `tokens` are committed: publishes the full blocks, gives back
    // those that no later query reads.
    void commit(SequenceBlocks& sequence, std::span<const int32_t> tokens, int32_t num_computed);

    // Gives up all blocks; published ones stay findable until they are reused, the last ones first.
    void release(SequenceBlocks& sequence);
    // The same for a sequence whose content is not to be trusted: what it published itself is
    // withdrawn.
    void discard(SequenceBlocks& sequence);

    // The memory behind the blocks, host blocks too, is lost: nothing is findable any more and no
    // plan is uncommitted. REQUIRES: every sequence is released.
    void forget_contents();

    // Blocks that can still be taken, in the group where they are fewest: free ones, and cached
    // ones that nobody uses.
    int32_t num_available() const;
    BlockCounts counts(int32_t group) const;
    CacheStats stats() const;
    // O(blocks and tables).
    DetailedCacheStats detailed_stats() const;
    // Of the living sequences, those whose tables hold the block, in no order.
    std::vector<uint64_t> owners(int32_t group, BlockId block) const;

    // For inspection.
    const PrefixIndex& index() const { return index_; }
    const BlockPool& pool(int32_t group) const { return pools_[group]; }

    // Throws internal when references differ from the occurrences in the tables of `sequences` (all
    // there are), or a part is broken in itself; slow, for tests.
    void check_integrity(std::span<const SequenceBlocks* const> sequences) const;

  private:
    friend class SequenceBlocks;

    // Given up, but named by an uncommitted plan.
    struct PendingFree {
        uint64_t last_plan = 0;
        int32_t group = 0;
        BlockId block = 0;
    };

    // The living sequences.
    void enter(SequenceBlocks& sequence);
    void leave(SequenceBlocks& sequence);
    void relocate(SequenceBlocks& from, SequenceBlocks& to) noexcept;

    // Keys and hits.
    int32_t first_block_read(int32_t group, int32_t position) const;
    int32_t admitted_size(int32_t group, int32_t first, int32_t num_tokens,
                          int32_t largest_step) const;
    bool reaches_back(const PrefixNode& node, int32_t block, std::vector<int32_t>& run_start) const;
    std::string_view extra_of(const SequenceBlocks& sequence, int32_t block_index) const;
    std::span<const int32_t> tokens_of(std::span<const int32_t> tokens, int32_t block_index) const;
    void extend_keys(SequenceBlocks& sequence, std::span<const int32_t> tokens,
                     int32_t num_blocks) const;
    void take_shared(SequenceBlocks& sequence, const PrefixMatch& match);
    void note_use(PrefixNode& node);
    void count_expected(PrefixNode& node, int32_t change);
    void await_next(SequenceBlocks& sequence);
    void stop_awaiting(SequenceBlocks& sequence);
    void meet_expectations(PrefixNode& node);

    // Blocks.
    void publish_next_block(SequenceBlocks& sequence, std::span<const int32_t> tokens);
    BlockKey key_of_next_block(const SequenceBlocks& sequence,
                               std::span<const int32_t> tokens) const;
    void publish(PrefixNode& node, int32_t group, BlockId block);
    void withdraw(int32_t group, BlockId block);
    bool holds(const SequenceBlocks& sequence, int32_t num_positions) const {
        return std::ranges::all_of(sequence.tables_, [&](const BlockTable& table) {
            return int64_t{table.size()} * config_.block_size >= num_positions;
        });
    }
    bool append_blocks(SequenceBlocks& sequence, int32_t num_positions,
                       std::vector<std::vector<BlockId>>& added);
    void give_back_unread(SequenceBlocks& sequence, int32_t num_computed);
    BlockId take(int32_t group);
    void part(const SequenceBlocks& sequence, int32_t group, BlockId block);
    void give_up(int32_t group, BlockId block);
    void set_published(SequenceBlocks& sequence, PrefixNode* node, int32_t num_blocks);
    void clear_table(SequenceBlocks& sequence, int32_t group);
    double half_lives(int64_t tick) const { return static_cast<double>(tick) / half_life_; }
    EvictionRank rank(const PrefixNode& node, int32_t group) const;
    void rank_anew(const PrefixNode& node, int32_t group);

    // Private copies, swapping, moving.
    int32_t num_to_replace(const SequenceBlocks& sequence, int32_t group, int32_t first) const;
    std::vector<PrefixNode*> published_path(const SequenceBlocks& sequence) const;
    int32_t num_to_take_back(const SequenceBlocks& sequence, int32_t group,
                             std::span<PrefixNode* const> path) const;
    void swap_in_group(SequenceBlocks& sequence, int32_t group, std::span<PrefixNode* const> path,
                       std::vector<SwapMove>& moves);
    void part_with_host_blocks(SequenceBlocks& sequence, uint64_t plan_number);
    void give_back_host_blocks(SequenceBlocks& sequence);
    std::optional<Fault> why_not_compact(std::span<const int32_t> targets) const;
    void drop_cached(int32_t group, int32_t target, Compaction& compaction);
    std::vector<BlockId> move_below(int32_t group, int32_t target, Compaction& compaction);
    void change_tables(int32_t group, int32_t target, std::span<const BlockId> places,
                       Compaction& compaction);

    // Figures and checks.
    CacheGroupStats stats_of(int32_t group) const;
    double fragmentation_of(int32_t group, int32_t longest_unused_run) const;
    int64_t waste_slots(int32_t group) const;
    void check_blocks(int32_t group, std::span<const SequenceBlocks* const> sequences) const;
    void check_contents(int32_t group) const;
    void check_host_blocks(std::span<const SequenceBlocks* const> sequences) const;
    void check_expectations() const;

    CacheConfig config_;
    const EvictionPolicy& eviction_;
    std::vector<BlockPool> pools_;  // per group
    PrefixIndex index_;
    SwapSpace swap_space_;
    std::vector<SequenceBlocks*> sequences_;  // all that live
    std::vector<PendingFree> parted_;         // in the order of giving up
    std::vector<PendingFree> host_parted_;    // the same for host blocks
    uint64_t last_named_plan_ = 0;
    uint64_t committed_plan_ = 0;
    int64_t tick_ = 0;  // blocks asked for
    double half_life_;  // in ticks
    bool has_windows_ = false;
    // Sequences that will ask for a content that is not there yet, by its key.
    struct KeyHash {
        size_t operator()(const BlockKey& key) const { return key.low; }
    };
    std::unordered_multimap<BlockKey, SequenceBlocks*, KeyHash> awaited_;
    int64_t queried_tokens_ = 0;
    int64_t hit_tokens_ = 0;
    int64_t num_private_copies_ = 0;
    int64_t num_duplicates_freed_ = 0;
    CompactionCounts compaction_counts_;
    SwapCounts swap_counts_;
};

}  // namespace nvllm
