// The blocks of one cache group: references, and the order in which unused blocks are reused.
//
// A block is used (sequences refer to it), cached (no sequence does, but its content can still be
// found) or free. Free blocks are reused before cached ones. Cached ones are evicted longest unused
// first, every operation O(1); in a ranked pool by rank, O(log blocks). Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/cache/eviction_queue.h"

namespace nvllm {

class BlockPool {
  public:
    // REQUIRES: num_blocks >= 1.
    explicit BlockPool(int32_t num_blocks, bool ranked = false);

    struct Taken {
        BlockId block = 0;
        // Its content was in the prefix cache and must be removed from it.
        bool was_cached = false;
    };
    // The next block in the order of reuse, with one reference; nothing when all are used.
    // `decay`: see EvictionQueue::first.
    std::optional<Taken> take(double decay = 0.0);
    // One reference more; an unused block becomes used.
    void share(BlockId block);
    // One reference less. At none the block is unused: cached when marked so, else free.
    // Of cached blocks of equal rank released one after the other, the earlier is reused first.
    // REQUIRES: the block is used.
    void release(BlockId block, const EvictionRank& rank = {});
    // REQUIRES: the pool is ranked; the block is cached and unused.
    void rerank(BlockId block, const EvictionRank& rank) { queue_.rerank(block, rank); }

    // REQUIRES: the same.
    EvictionRank rank_of(BlockId block) const { return queue_.rank_of(block); }

    // The content can be found from now on. REQUIRES: the block is used.
    void mark_cached(BlockId block);
    // The content cannot be found any more; an unused block becomes free.
    void forget(BlockId block);

    // Of the cached unused blocks, the one that is evicted first; nothing if there is none.
    std::optional<BlockId> next_evicted(double decay = 0.0) const;

    // References, content and position in the order of reuse move to another block; `from` becomes
    // free. REQUIRES: `to` is free.
    void move(BlockId from, BlockId to);
    // Blocks are added at the end, or taken from it. REQUIRES: num_blocks >= 1; those taken away
    // are free.
    void resize(int32_t num_blocks);

    bool is_cached(BlockId block) const { return at(block).cached; }
    bool is_free(BlockId block) const { return at(block).references == 0 && !at(block).cached; }
    int32_t references(BlockId block) const { return at(block).references; }

    // used + cached + free = total, always.
    int32_t num_total() const { return num_total_; }
    int32_t num_used() const { return num_total_ - num_cached_ - num_free_; }
    int32_t num_cached() const { return num_cached_; }
    int32_t num_free() const { return num_free_; }
    // Blocks that take() can give.
    int32_t num_available() const { return num_cached_ + num_free_; }
    // Cached blocks that take() returned.
    int64_t num_evictions() const { return num_evictions_; }

    // Throws internal when lists, counters and references disagree; O(blocks), for tests.
    void check_integrity() const;

  private:
    struct Block {
        int32_t references = 0;
        bool cached = false;
        // Neighbours in the ring of free or of cached blocks.
        BlockId previous = 0;
        BlockId next = 0;
    };
    // Entries of blocks_ that close the rings; blocks follow them.
    static constexpr BlockId kFreeRing = -2;
    static constexpr BlockId kCachedRing = -1;

    Block& at(BlockId block) { return blocks_[block + 2]; }
    const Block& at(BlockId block) const { return blocks_[block + 2]; }
    void link_before(BlockId block, BlockId next);
    void unlink(BlockId block);
    void add_unused(BlockId block, const EvictionRank& rank);
    void remove_unused(BlockId block);
    int32_t check_ring(BlockId ring) const;

    int32_t num_total_;
    int32_t num_cached_ = 0;
    int32_t num_free_ = 0;
    int64_t num_evictions_ = 0;
    bool ranked_;
    std::vector<Block> blocks_;
    EvictionQueue queue_;  // of cached blocks, in a ranked pool
};

}  // namespace nvllm
