// The ring of unused blocks and the reference counts.
#include "lib/cache/block_pool.h"

#include "kernels/error.h"

namespace nvllm {

BlockPool::BlockPool(int32_t num_blocks) : num_total_(num_blocks) {
    NVLLM_CHECK(num_blocks >= 1, "a pool needs a block");
    blocks_.resize(static_cast<size_t>(num_blocks) + 1);
    blocks_[num_total_].previous = blocks_[num_total_].next = num_total_;
    for (BlockId block = 0; block < num_blocks; ++block) {
        link_before(block, num_total_);
        ++num_free_;
    }
}

std::optional<BlockPool::Taken> BlockPool::take() {
    const BlockId block = blocks_[num_total_].next;
    if (block == num_total_) return std::nullopt;
    const bool was_cached = blocks_[block].cached;
    share(block);
    blocks_[block].cached = false;
    num_evictions_ += was_cached ? 1 : 0;
    return Taken{block, was_cached};
}

void BlockPool::share(BlockId block) {
    Block& entry = blocks_[block];
    if (entry.references == 0) {
        unlink(block);
        --counter_of(entry);
    }
    ++entry.references;
}

void BlockPool::release(BlockId block) {
    Block& entry = blocks_[block];
    NVLLM_CHECK(entry.references > 0, "block " + std::to_string(block) + " is released twice");
    if (--entry.references > 0) return;
    link_unused(block);
}

void BlockPool::mark_cached(BlockId block) {
    NVLLM_CHECK(blocks_[block].references > 0, "the content of an unused block is not known");
    blocks_[block].cached = true;
}

void BlockPool::forget(BlockId block) {
    Block& entry = blocks_[block];
    if (!entry.cached) return;
    if (entry.references > 0) {
        entry.cached = false;
        return;
    }
    unlink(block);
    --num_cached_;
    entry.cached = false;
    link_unused(block);
}

void BlockPool::link_before(BlockId block, BlockId next) {
    const BlockId previous = blocks_[next].previous;
    blocks_[block].previous = previous;
    blocks_[block].next = next;
    blocks_[previous].next = block;
    blocks_[next].previous = block;
}

void BlockPool::unlink(BlockId block) {
    const Block& entry = blocks_[block];
    blocks_[entry.previous].next = entry.next;
    blocks_[entry.next].previous = entry.previous;
}

// Free blocks go to the front: as long as there is one, no cached content is lost.
void BlockPool::link_unused(BlockId block) {
    const Block& entry = blocks_[block];
    link_before(block, entry.cached ? num_total_ : blocks_[num_total_].next);
    ++counter_of(entry);
}

void BlockPool::check_integrity() const {
    int32_t cached = 0;
    int32_t free = 0;
    BlockId previous = num_total_;
    for (BlockId block = blocks_[num_total_].next; block != num_total_;
         block = blocks_[block].next) {
        const Block& entry = blocks_[block];
        const std::string name = "block " + std::to_string(block);
        NVLLM_CHECK(entry.references == 0, name + " is used and in the list of unused blocks");
        NVLLM_CHECK(entry.previous == previous, name + " does not know the block before it");
        NVLLM_CHECK(entry.cached || cached == 0, name + " is free and stands behind a cached one");
        ++(entry.cached ? cached : free);
        NVLLM_CHECK(cached + free <= num_total_, "the list of unused blocks does not end");
        previous = block;
    }
    int32_t unused = 0;
    for (BlockId block = 0; block < num_total_; ++block) unused += blocks_[block].references == 0;
    NVLLM_CHECK(cached == num_cached_ && free == num_free_,
                "the counters of unused blocks are wrong");
    NVLLM_CHECK(unused == cached + free, "an unused block is not in the list");
}

}  // namespace nvllm
