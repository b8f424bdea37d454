// The heaps and the positions of blocks in them.
#include "lib/cache/eviction_queue.h"

#include <utility>

#include "kernels/error.h"

namespace nvllm {

int32_t EvictionQueue::size() const {
    return static_cast<int32_t>(others_.size() + expected_.size());
}

bool EvictionQueue::contains(BlockId block) const {
    return block < static_cast<BlockId>(positions_.size()) && positions_[block].index != kNone;
}

EvictionRank EvictionQueue::rank_of(BlockId block) const {
    NVLLM_CHECK(contains(block), "the block is not in the eviction queue");
    const Position position = positions_[block];
    return (position.expected ? expected_ : others_)[position.index].rank;
}

bool EvictionQueue::before(const Entry& one, const Entry& other) {
    if (one.rank.has_children != other.rank.has_children) return other.rank.has_children;
    if (one.rank.value != other.rank.value) return one.rank.value < other.rank.value;
    return one.number < other.number;
}

void EvictionQueue::push(BlockId block, const EvictionRank& rank) {
    NVLLM_CHECK(!contains(block), "a block is unused twice");
    if (block >= static_cast<BlockId>(positions_.size())) positions_.resize(block + 1);
    insert({rank, next_number_++, block});
}

void EvictionQueue::remove(BlockId block) { extract(block); }

void EvictionQueue::rerank(BlockId block, const EvictionRank& rank) {
    Entry entry = extract(block);
    entry.rank = rank;
    insert(entry);
}

void EvictionQueue::replace(BlockId from, BlockId to) {
    NVLLM_CHECK(contains(from) && !contains(to),
                "a block moves from the queue to one that is not in it");
    if (to >= static_cast<BlockId>(positions_.size())) positions_.resize(to + 1);
    const Position position = std::exchange(positions_[from], {});
    heap(position.expected)[position.index].block = to;
    positions_[to] = position;
}

std::optional<BlockId> EvictionQueue::first(double decay) const {
    if (others_.empty() && expected_.empty()) return std::nullopt;
    if (expected_.empty()) return others_.front().block;
    if (others_.empty()) return expected_.front().block;
    Entry other = others_.front();
    other.rank.value -= decay;
    return before(expected_.front(), other) ? expected_.front().block : other.block;
}

void EvictionQueue::insert(const Entry& entry) {
    Heap& heap = this->heap(entry.rank.expected);
    heap.emplace_back();
    const auto last = static_cast<int32_t>(heap.size()) - 1;
    put(heap, last, entry);
    rise(heap, last);
}

EvictionQueue::Entry EvictionQueue::extract(BlockId block) {
    NVLLM_CHECK(contains(block), "the block is not in the eviction queue");
    const Position position = std::exchange(positions_[block], {});
    Heap& heap = this->heap(position.expected);
    const Entry entry = heap[position.index];
    const Entry last = heap.back();
    heap.pop_back();
    if (last.block != block) {
        put(heap, position.index, last);
        rise(heap, position.index);
        sink(heap, positions_[last.block].index);
    }
    return entry;
}

void EvictionQueue::put(Heap& heap, int32_t index, const Entry& entry) {
    heap[index] = entry;
    positions_[entry.block] = {index, entry.rank.expected};
}

void EvictionQueue::rise(Heap& heap, int32_t index) {
    const Entry entry = heap[index];
    while (index > 0 && before(entry, heap[(index - 1) / 2])) {
        put(heap, index, heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    put(heap, index, entry);
}

void EvictionQueue::sink(Heap& heap, int32_t index) {
    const Entry entry = heap[index];
    const auto size = static_cast<int32_t>(heap.size());
    while (2 * index + 1 < size) {
        int32_t child = 2 * index + 1;
        if (child + 1 < size && before(heap[child + 1], heap[child])) ++child;
        if (!before(heap[child], entry)) break;
        put(heap, index, heap[child]);
        index = child;
    }
    put(heap, index, entry);
}

void EvictionQueue::check_integrity() const {
    int32_t known = 0;
    for (const Position& position : positions_) known += position.index != kNone;
    NVLLM_CHECK(known == size(), "the eviction queue counts another number of blocks");
    for (const Heap* heap : {&others_, &expected_}) {
        for (size_t i = 0; i < heap->size(); ++i) {
            const Entry& entry = (*heap)[i];
            const Position& position = positions_[entry.block];
            NVLLM_CHECK(position.index == static_cast<int32_t>(i), "a block's position is wrong");
            NVLLM_CHECK(position.expected == (heap == &expected_), "a block is in the wrong heap");
            NVLLM_CHECK(i == 0 || !before(entry, (*heap)[(i - 1) / 2]), "a heap is out of order");
        }
    }
}

}  // namespace nvllm
