// The block tables of all sequences, in every cache group.
//
// A sequence has one table for each group of layers whose keys and values have the same shape and
// window. CacheManager is a facade: each subject is a part with a header of its own.
//
//   BlockPool        references of one group's blocks; which unused block is reused next
//   BlockTables      admission, growth and freeing of the blocks of sequences
//   PrefixCache      lookup, insertion and eviction of full blocks
//   EvictionRanking  the order of eviction
//   ReuseHints       blocks that waiting sequences will ask for
//   DeferredFree     blocks that an uncommitted plan may still read
//   StateSlots       running states and checkpoints of recurrent layers
//   CopyOnWrite      forks
//   Swapper          sequences in host memory
//   HostTier         contents of evicted blocks in host memory
//   DiskTier         contents in files
//   Compactor        moving blocks, resizing pools
//
// Copies are returned by the calls that need them and run before anything is computed. If they run
// in the order of the calls they are right, whatever was freed and taken in between.
//
// The engine thread owns it: no locks. It outlives every SequenceBlocks made for it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/cache/cache_parts.h"
#include "lib/cache/cache_stats.h"
#include "lib/cache/prefix/siphash.h"

namespace nvllm {

struct CacheConfig {
    int32_t block_size = 16;  // positions in a block, the same in every group
    std::vector<CacheGroupConfig> groups = {};
    bool enable_prefix_caching = true;
    std::optional<HashKey> hash_key = std::nullopt;  // of block keys; empty: a random one
    PrefixListener* listener = nullptr;  // of the prefix cache; outlives the manager; null: none
    std::string eviction = "lru";        // a row of eviction.cc
    // Of states: kept at multiples of so many tokens, rounded up to whole blocks. 0: of a block.
    int32_t checkpoint_interval = 0;
    // Of a prompt's states: kept at so many borders between its messages, the first of them and the
    // last ones.
    int32_t checkpoint_borders = 4;
    EvictionCosts eviction_costs = {};
    // Contents of evicted blocks go to host blocks (HostTier).
    bool keeps_evicted = false;
    // Contents go to files, through host blocks (DiskTier); null: none do. Its hash key is used.
    std::shared_ptr<DiskStore> disk_store = nullptr;
    std::vector<DiskBlock> disk_blocks = {};  // of each group
};

class CacheManager {
  public:
    // Throws bad_config if a size is below one, there is no group, or no such eviction policy.
    explicit CacheManager(const CacheConfig& config);
    CacheManager(const CacheManager&) = delete;
    CacheManager& operator=(const CacheManager&) = delete;

    int32_t block_size() const { return shape_.block_size(); }
    int32_t num_groups() const { return shape_.num_groups(); }
    // Whether states are kept for other sequences, and at multiples of how many tokens.
    bool keeps_checkpoints() const { return shape_.has_states() && prefix_cache_.enabled(); }
    int32_t checkpoint_interval() const { return states_.checkpoint_interval(); }
    int32_t checkpoint_borders() const { return checkpoint_borders_; }
    // Sizes of tables, windows, kinds of groups.
    const CacheShape& shape() const { return shape_; }
    // For inspection. Valid as long as the manager.
    CacheParts parts() const;

    // The longest prefix of `tokens` that every group still holds as far as its window reaches
    // back; with state groups, up to the last checkpoint that all of them hold. At least the last
    // token is left over: its logits are needed. Takes no block. REQUIRES: `tokens` begin with
    // those of earlier calls.
    PrefixMatch match(SequenceBlocks& sequence, std::span<const int32_t> tokens) {
        return prefix_cache_.match(sequence.state_, tokens);
    }

    // Shares the matched blocks, and takes blocks for the rest of `tokens`, up to
    // CacheShape::max_blocks(), so that computing them cannot run out of blocks. False, with
    // nothing changed, if fewer than `headroom` blocks of a group would be left. REQUIRES: the
    // sequence is empty; the match is of the same tokens.
    bool admit(SequenceBlocks& sequence, const PrefixMatch& match, int32_t num_tokens,
               int32_t largest_step, int32_t headroom);
    // Blocks of the group that admit() with these arguments is short of; 0 if none.
    int32_t num_missing(int32_t group, const PrefixMatch& match, int32_t num_tokens,
                        int32_t largest_step, int32_t headroom) const {
        return tables_.num_missing(group, match, num_tokens, largest_step, headroom);
    }

    // Takes blocks for positions below `num_positions`, in all groups or none (false). The blocks
    // appended to the tables are also appended to `added`, one list for each group; `added` stays
    // empty if none was needed.
    bool allocate(SequenceBlocks& sequence, int32_t num_positions,
                  std::vector<std::vector<BlockId>>& added) {
        return tables_.allocate(sequence.state_, num_positions, added);
    }

    // The tokens of a waiting sequence: if the eviction policy uses hints, it spares the blocks
    // cached of them now or later. Holds until the sequence is admitted or freed, or the next
    // call. No tokens: removes the hint. Takes no block. REQUIRES: as match().
    void set_reuse_hint(SequenceBlocks& sequence, std::span<const int32_t> tokens) {
        hints_.set(sequence.state_, tokens);
    }

    // `child` continues `parent`: shares the blocks of its first `num_positions` positions in all
    // groups. Both must call copy_on_write() before they write. REQUIRES: `child` is
    // empty, of the same extras, and its tokens begin with the parent's first `num_positions`,
    // which include all committed ones.
    void fork(SequenceBlocks& child, const SequenceBlocks& parent,
              int32_t num_positions = std::numeric_limits<int32_t>::max());
    // Before position `next_position` and later ones are written: blocks from there on that other
    // sequences refer to are replaced in the table by new ones, appended to `changes`; a block that
    // holds earlier positions is to be copied, appended to `copies`. False, with nothing changed,
    // if blocks are missing. With state groups it is called before every plan that names the
    // sequence: a checkpoint or a shared state is copied to a slot of the sequence's own, and a
    // state at a multiple of the checkpoint interval, or at any block boundary if `use` says so,
    // is kept as a checkpoint if a slot is available. REQUIRES: the block of `next_position` is not
    // cached.
    bool copy_on_write(SequenceBlocks& sequence, int32_t next_position,
                       std::vector<BlockMove>& copies, std::vector<TableChange>& changes,
                       StateUse use = StateUse::at_interval) {
        return copy_on_write_.make_writable(sequence.state_, next_position, use, copies, changes);
    }

    // Frees the device blocks; the content of the first `num_positions` is to be copied to host
    // blocks, appended to `moves`. Shared and cached blocks stay for the others. False, with
    // nothing changed, if a group has too few free host blocks. REQUIRES: not empty, not swapped
    // out, and no plan of the sequence is in flight.
    bool swap_out(SequenceBlocks& sequence, int32_t num_positions, std::vector<SwapMove>& moves) {
        return swapper_.swap_out(sequence.state_, num_positions, moves);
    }
    // The other way; blocks still cached on the device are shared and not copied. False, with
    // nothing changed, if fewer than `headroom` blocks of a group would be left. The host blocks
    // are free when the next plan that names the sequence is committed. REQUIRES: swapped out.
    bool swap_in(SequenceBlocks& sequence, int32_t headroom, std::vector<SwapMove>& moves) {
        return swapper_.swap_in(sequence.state_, headroom, moves);
    }

    // Copies between the device and the contents in host memory, for the next plan; see HostTier.
    bool has_tier_moves() const { return host_tier_.has_moves(); }
    void take_tier_moves(std::vector<SwapMove>& out, std::vector<SwapMove>& in) {
        host_tier_.take_moves(out, in);
    }
    // What waits for files, and what goes to them.
    DiskTier& disk_tier() { return disk_tier_; }
    // Begins to read what only files have of the beginning of `tokens`.
    bool begin_reads(SequenceBlocks& sequence, std::span<const int32_t> tokens) {
        return disk_tier_.begin_reads(sequence.state_, tokens);
    }
    bool is_reading(const SequenceBlocks& sequence) const {
        return disk_tier_.is_reading(sequence.state_);
    }
    // Blocks that were evicted since are written to outside of plans.
    void cancel_keeps() { host_tier_.cancel_keeps(); }

    // Moves blocks so that all used ones of group g, and as many cached ones as fit, lie below
    // targets[g]; evicts the other cached ones. The tables change at once: the moves must run
    // before the next plan computes. A fault, with nothing changed, if a plan is uncommitted or the
    // used blocks do not fit.
    Result<Compaction> compact(std::span<const int32_t> targets) {
        return compactor_.compact(targets);
    }
    // Changes the numbers of blocks while sequences live. Growing is always possible; a group that
    // shrinks must have been compacted: a fault, with nothing changed, if a block to be cut off is
    // not free.
    std::optional<Fault> resize(std::span<const int32_t> num_blocks) {
        return compactor_.resize(num_blocks);
    }
    // Of the group where it is worst, as in detailed_stats(). O(blocks).
    double fragmentation() const;

    // The plan with this number reads or writes the sequence's blocks. REQUIRES: numbers do not
    // fall.
    void name_in_plan(SequenceBlocks& sequence, uint64_t plan_number) {
        CacheSequence& state = sequence.state_;
        NVLLM_CHECK(plan_number >= state.last_plan, "plans are numbered upwards");
        state.last_plan = plan_number;
        deferred_.name_plan(plan_number);
        if (!state.returning.empty()) swapper_.free_after(state, plan_number);
    }
    // All plans up to this one are committed: the blocks freed under them can be reused.
    void plan_committed(uint64_t plan_number);

    // The first `num_computed` of `tokens` are committed: inserts the full blocks into the prefix
    // cache, frees those that no later query reads.
    void commit(SequenceBlocks& sequence, std::span<const int32_t> tokens, int32_t num_computed);

    // Frees all blocks, the last ones first; cached ones can be found until they are evicted.
    void free(SequenceBlocks& sequence);
    // The same for a sequence whose content may be wrong: the blocks that it inserted are removed
    // from the prefix cache.
    void discard(SequenceBlocks& sequence);
    // Removes what no sequence uses from the prefix cache, also while plans are uncommitted: their
    // blocks are in use.
    CacheReset clear_unused();
    // The memory of the blocks, host blocks too, is lost: clears the prefix cache; no plan is
    // uncommitted. REQUIRES: every sequence is freed.
    void clear();

    // Blocks that can still be taken, in the group where they are fewest: free and cached ones.
    // State groups do not count, because admitted sequences do not grow in them.
    int32_t num_available() const;
    BlockCounts counts(int32_t group) const;
    // Cheap enough for every step.
    CacheStats stats() const;
    // O(blocks and tables).
    DetailedCacheStats detailed_stats() const;
    // Throws internal if references differ from the occurrences in the tables of `sequences` (all
    // there are), or a part is inconsistent; slow, for tests.
    void check_integrity(std::span<const SequenceBlocks* const> sequences) const;

  private:
    friend class SequenceBlocks;

    void commit_blocks(CacheSequence& sequence, std::span<const int32_t> tokens,
                       int32_t num_computed);

    // Each part uses those before it.
    CacheShape shape_;
    std::vector<BlockPool> pools_;  // per group
    PrefixIndex index_;
    EvictionRanking ranking_;
    ReuseHints hints_;
    SwapSpace swap_space_;
    HostTier host_tier_;
    DiskTier disk_tier_;
    PrefixCache prefix_cache_;
    DeferredFree deferred_;
    BlockTables tables_;
    StateSlots states_;
    int32_t checkpoint_borders_;
    CopyOnWrite copy_on_write_;
    Swapper swapper_;
    Compactor compactor_;
};

}  // namespace nvllm
