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
// The engine thread owns it: no locks. It outlives every SequenceCache made for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/cache/block_pool.h"
#include "lib/cache/block_table.h"
#include "lib/cache/prefix_index.h"
#include "lib/cache/siphash.h"

namespace nvllm {

struct CacheGroupConfig {
    int32_t num_blocks = 0;
    int32_t window = 0;  // positions a query reads, itself included; 0: all
};

struct CacheConfig {
    int32_t block_size = 16;  // positions in a block, the same in every group
    std::vector<CacheGroupConfig> groups;
    bool enable_prefix_caching = true;
    std::optional<HashKey> hash_key = std::nullopt;  // of the block keys; empty: drawn for this process
};

// Of one group, or summed over groups. used + cached + free = total.
struct BlockCounts {
    int32_t total = 0;
    int32_t used = 0;
    int32_t cached = 0;
    int32_t free = 0;
    int64_t evictions = 0;  // cached blocks reused for something else
};

struct CacheStats {
    BlockCounts blocks;
    int64_t queried_tokens = 0;  // of sequences that were let in while prefix caching is on
    int64_t hit_tokens = 0;      // of those, found in the cache
};

class CacheManager;

// One sequence's share of the cache. Gives its blocks back when it goes. Changed by CacheManager
// only.
class SequenceCache {
  public:
    // Sequences with different salts share no block.
    SequenceCache(CacheManager& manager, std::string_view salt);
    ~SequenceCache();
    SequenceCache(SequenceCache&& other) noexcept;
    SequenceCache(const SequenceCache&) = delete;
    SequenceCache& operator=(const SequenceCache&) = delete;
    SequenceCache& operator=(SequenceCache&&) = delete;

    const BlockTable& table(int32_t group) const { return tables_[group]; }
    // Whether it holds blocks in any group.
    bool empty() const;
    // Leading blocks whose content can be found by others, or could until it left the window.
    int32_t num_published_blocks() const { return num_published_; }

  private:
    friend class CacheManager;

    CacheManager* manager_;
    std::string salt_;
    std::vector<BlockTable> tables_;  // per group
    std::vector<BlockKey>
        keys_;  // of the leading full blocks, computed once: tokens are only ever appended
    PrefixNode* published_ = nullptr;  // content of the last published block; pinned
    int32_t num_published_ = 0;
    int32_t num_shared_ = 0;  // of those, found in the cache and not computed
    uint64_t last_plan_ = 0;  // the last plan that named the sequence
};

// The longest cached prefix of a list of tokens. Valid until the next change of the cache.
struct PrefixMatch {
    int32_t num_tokens = 0;             // whole blocks only
    std::vector<PrefixNode*> contents;  // of the matched blocks
};

class CacheManager {
  public:
    // Throws bad_config when a size is below one or there is no group.
    explicit CacheManager(const CacheConfig& config);
    CacheManager(const CacheManager&) = delete;
    CacheManager& operator=(const CacheManager&) = delete;

    int32_t block_size() const { return config_.block_size; }
    int32_t num_groups() const { return static_cast<int32_t>(pools_.size()); }
    bool prefix_caching() const { return config_.enable_prefix_caching; }

    // The longest prefix of `tokens` that every group still holds as far as its window reaches
    // back. At least the last token is left over: its logits are wanted. Takes nothing. REQUIRES:
    // `tokens` begin with those of earlier calls.
    PrefixMatch match(SequenceCache& sequence, std::span<const int32_t> tokens);

    // Blocks of a group that a sequence of `num_tokens` holds at most at any time, when it computes
    // `largest_step` tokens at once.
    int32_t most_blocks(int32_t group, int32_t num_tokens, int32_t largest_step) const;

    // Takes the matched blocks, and blocks for the rest of `tokens` - as far as most_blocks() - so
    // that computing them cannot fail for want of blocks. False, with nothing changed, when fewer
    // than `headroom` blocks of a group would be left over. REQUIRES: the sequence is empty; the
    // match is of the same tokens.
    bool admit(SequenceCache& sequence, const PrefixMatch& match, int32_t num_tokens,
               int32_t largest_step, int32_t headroom);

    // Blocks for positions below `num_positions`, in all groups or none (false). What is appended
    // to the tables is also appended to `added`, one list a group; `added` stays empty when nothing
    // was needed.
    bool allocate(SequenceCache& sequence, int32_t num_positions,
                  std::vector<std::vector<BlockId>>& added);

    // The plan with this number reads or writes the sequence's blocks. REQUIRES: numbers do not
    // fall.
    void name_in_plan(SequenceCache& sequence, uint64_t plan_number);
    // All plans up to this one are committed: blocks given up under them can be reused.
    void plan_committed(uint64_t plan_number);

    // Whether blocks were given up that an uncommitted plan still names.
    bool awaits_commit() const { return !parted_.empty(); }

    // The first `num_computed` of `tokens` are committed: publishes the full blocks, gives back
    // those that no later query reads.
    void commit(SequenceCache& sequence, std::span<const int32_t> tokens, int32_t num_computed);

    // Gives up all blocks; published ones stay findable until they are reused, the last ones first.
    void release(SequenceCache& sequence);
    // The same for a sequence whose content is not to be trusted: what it published itself is
    // withdrawn.
    void discard(SequenceCache& sequence);

    // The memory behind the blocks is lost: nothing is findable any more and no plan is
    // uncommitted. REQUIRES: every sequence is empty.
    void forget_contents();

    BlockCounts counts(int32_t group) const;
    CacheStats stats() const;

    // Throws internal when references differ from the occurrences in the tables of `sequences` (all
    // there are), or a part is broken in itself; slow, for tests.
    void check_integrity(std::span<const SequenceCache* const> sequences) const;

  private:
    // Given up, but named by an uncommitted plan.
    struct Parted {
        uint64_t last_plan = 0;
        int32_t group = 0;
        BlockId block = 0;
    };

    int32_t num_blocks_for(int32_t num_positions) const;
    int32_t first_block_read(int32_t group, int32_t position) const;
    int32_t admitted_size(int32_t group, int32_t first, int32_t num_tokens,
                          int32_t largest_step) const;
    bool fits(int32_t group, const PrefixMatch& match, int32_t size, int32_t headroom) const;
    bool reaches_back(const PrefixNode& node, int32_t block, std::vector<int32_t>& run_start) const;
    std::string_view extra_of(const SequenceCache& sequence, int32_t block_index) const;
    std::span<const int32_t> tokens_of(std::span<const int32_t> tokens, int32_t block_index) const;
    void extend_keys(SequenceCache& sequence, std::span<const int32_t> tokens,
                     int32_t num_blocks) const;
    void take_shared(SequenceCache& sequence, const PrefixMatch& match);
    void publish_next_block(SequenceCache& sequence, std::span<const int32_t> tokens);
    void give_back_unread(SequenceCache& sequence, int32_t num_computed);
    BlockId take(int32_t group);
    void part(const SequenceCache& sequence, int32_t group, BlockId block);
    void set_published(SequenceCache& sequence, PrefixNode* node, int32_t num_blocks);

    CacheConfig config_;
    std::vector<BlockPool> pools_;  // per group
    PrefixIndex index_;
    std::vector<Parted> parted_;  // in the order of giving up
    uint64_t committed_plan_ = 0;
    int64_t queried_tokens_ = 0;
    int64_t hit_tokens_ = 0;
};

}  // namespace nvllm
