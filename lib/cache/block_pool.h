// The blocks of one cache group: who refers to each, and in which order the unused ones are reused.
//
// A block is used (somebody refers to it), cached (nobody does, but its content can still be found)
// or free. Unused blocks stand in one list in the order of reuse: free ones first, then cached
// ones, longest unused first. Every operation is O(1). Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace nvllm {

// The physical number of a block in its group, from 0.
using BlockId = int32_t;

class BlockPool {
  public:
    // REQUIRES: num_blocks >= 1.
    explicit BlockPool(int32_t num_blocks);

    struct Taken {
        BlockId block = 0;
        // Its content was findable until now and must not be found any more.
        bool was_cached = false;
    };
    // The next block in the order of reuse, with one reference; nothing when all are used.
    std::optional<Taken> take();
    // One reference more; an unused block becomes used.
    void share(BlockId block);
    // One reference less. At none the block is unused: cached when marked so, else free.
    // Of cached blocks released one after the other, the earlier is reused first.
    // REQUIRES: the block is used.
    void release(BlockId block);

    // The content can be found from now on. REQUIRES: the block is used.
    void mark_cached(BlockId block);
    // The content cannot be found any more; an unused block becomes free.
    void forget(BlockId block);

    bool is_cached(BlockId block) const { return blocks_[block].cached; }
    int32_t references(BlockId block) const { return blocks_[block].references; }

    // used + cached + free = total, always.
    int32_t num_total() const { return num_total_; }
    int32_t num_used() const { return num_total_ - num_cached_ - num_free_; }
    int32_t num_cached() const { return num_cached_; }
    int32_t num_free() const { return num_free_; }
    // Blocks that take() can give.
    int32_t num_available() const { return num_cached_ + num_free_; }
    // Cached blocks that take() gave away.
    int64_t num_evictions() const { return num_evictions_; }

    // Throws internal when list, counters and references disagree; O(blocks), for tests.
    void check_integrity() const;

  private:
    struct Block {
        int32_t references = 0;
        bool cached = false;
        // Neighbours in the list of unused blocks.
        BlockId previous = 0;
        BlockId next = 0;
    };

    void link_before(BlockId block, BlockId next);
    void unlink(BlockId block);
    void link_unused(BlockId block);
    int32_t& counter_of(const Block& block) { return block.cached ? num_cached_ : num_free_; }

    int32_t num_total_;
    int32_t num_cached_ = 0;
    int32_t num_free_ = 0;
    int64_t num_evictions_ = 0;
    // One entry more than there are blocks: the last one closes the list of unused blocks to a
    // ring.
    std::vector<Block> blocks_;
};

}  // namespace nvllm
