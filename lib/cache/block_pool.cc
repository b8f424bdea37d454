// The rings of unused blocks and the reference counts.
#include "lib/cache/block_pool.h"

#include "kernels/error.h"

namespace nvllm {

BlockPool::BlockPool(int32_t num_blocks, bool ranked) : num_total_(0), ranked_(ranked), blocks_(2) {
    for (const BlockId ring : {kFreeRing, kCachedRing}) at(ring).previous = at(ring).next = ring;
    resize(num_blocks);
}

std::optional<BlockPool::Taken> BlockPool::take(double decay) {
    if (num_free_ > 0) {
        const BlockId block = at(kFreeRing).next;
        share(block);
        return Taken{block, false};
    }
    const std::optional<BlockId> block = next_evicted(decay);
    if (!block) return std::nullopt;
    share(*block);
    at(*block).cached = false;
    ++num_evictions_;
    return Taken{*block, true};
}

std::optional<BlockId> BlockPool::next_evicted(double decay) const {
    if (num_cached_ == 0) return std::nullopt;
    return ranked_ ? queue_.first(decay) : at(kCachedRing).next;
}

void BlockPool::share(BlockId block) {
    if (at(block).references == 0) remove_unused(block);
    ++at(block).references;
}

void BlockPool::release(BlockId block, const EvictionRank& rank) {
    Block& entry = at(block);
    NVLLM_CHECK(entry.references > 0, "block " + std::to_string(block) + " is released twice");
    if (--entry.references > 0) return;
    add_unused(block, rank);
}

void BlockPool::mark_cached(BlockId block) {
    NVLLM_CHECK(at(block).references > 0, "an unused block has no known content");
    at(block).cached = true;
}

void BlockPool::forget(BlockId block) {
    Block& entry = at(block);
    if (!entry.cached) return;
    if (entry.references > 0) {
        entry.cached = false;
        return;
    }
    remove_unused(block);
    entry.cached = false;
    add_unused(block, {});
}

void BlockPool::move(BlockId from, BlockId to) {
    NVLLM_CHECK(is_free(to), "block " + std::to_string(to) + " is not free");
    if (is_free(from)) return;
    Block& source = at(from);
    Block& target = at(to);
    remove_unused(to);
    target.references = source.references;
    target.cached = source.cached;
    if (source.references == 0) {
        if (ranked_) {
            queue_.replace(from, to);
        } else {
            link_before(to, source.next);
            unlink(from);
        }
    }
    source.references = 0;
    source.cached = false;
    add_unused(from, {});
}

void BlockPool::resize(int32_t num_blocks) {
    NVLLM_CHECK(num_blocks >= 1, "a pool needs a block");
    for (BlockId block = num_blocks; block < num_total_; ++block) {
        NVLLM_CHECK(is_free(block), "block " + std::to_string(block) + " is cut off");
        remove_unused(block);
    }
    blocks_.resize(static_cast<size_t>(num_blocks) + 2);
    for (BlockId block = num_total_; block < num_blocks; ++block) {
        link_before(block, kFreeRing);
        ++num_free_;
    }
    num_total_ = num_blocks;
}

void BlockPool::link_before(BlockId block, BlockId next) {
    const BlockId previous = at(next).previous;
    at(block).previous = previous;
    at(block).next = next;
    at(previous).next = block;
    at(next).previous = block;
}

void BlockPool::unlink(BlockId block) {
    const Block& entry = at(block);
    at(entry.previous).next = entry.next;
    at(entry.next).previous = entry.previous;
}

void BlockPool::add_unused(BlockId block, const EvictionRank& rank) {
    if (!at(block).cached) {
        link_before(block, at(kFreeRing).next);
        ++num_free_;
        return;
    }
    ++num_cached_;
    if (ranked_) {
        queue_.push(block, rank);
    } else {
        link_before(block, kCachedRing);
    }
}

void BlockPool::remove_unused(BlockId block) {
    const bool cached = at(block).cached;
    --(cached ? num_cached_ : num_free_);
    if (cached && ranked_) {
        queue_.remove(block);
    } else {
        unlink(block);
    }
}

// The number of blocks in the ring.
int32_t BlockPool::check_ring(BlockId ring) const {
    int32_t count = 0;
    BlockId previous = ring;
    for (BlockId block = at(ring).next; block != ring; block = at(block).next) {
        const Block& entry = at(block);
        const std::string name = "block " + std::to_string(block);
        NVLLM_CHECK(entry.references == 0, name + " is used and in a list of unused blocks");
        NVLLM_CHECK(entry.previous == previous, name + " has a wrong previous block");
        NVLLM_CHECK(entry.cached == (ring == kCachedRing), name + " is in the wrong list");
        NVLLM_CHECK(++count <= num_total_, "a list of unused blocks does not end");
        previous = block;
    }
    return count;
}

void BlockPool::check_integrity() const {
    queue_.check_integrity();
    const int32_t free = check_ring(kFreeRing);
    const int32_t cached = ranked_ ? queue_.size() : check_ring(kCachedRing);
    int32_t unused = 0;
    for (BlockId block = 0; block < num_total_; ++block) {
        unused += references(block) == 0;
        NVLLM_CHECK(
            !ranked_ || queue_.contains(block) == (references(block) == 0 && is_cached(block)),
            "block " + std::to_string(block) + " is wrongly in the eviction queue, or missing");
    }
    NVLLM_CHECK(cached == num_cached_ && free == num_free_,
                "the counters of unused blocks are wrong");
    NVLLM_CHECK(unused == cached + free, "an unused block is not in the list");
}

}  // namespace nvllm
