// The cached blocks that no sequence uses, in the order of eviction: binary heaps with the position
// of each block, from which any block can be removed or reranked.
//
// Blocks with a reuse hint are in a heap of their own, because their values do not decay.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace nvllm {

// The physical number of a block in its group, from 0.
using BlockId = int32_t;

struct EvictionRank {
    bool has_children = false;  // is evicted after all that have none
    bool expected = false;      // has a reuse hint: its value does not decay
    double value = 0.0;         // the smaller is evicted first
};

// Changes are O(log size), queries O(1).
class EvictionQueue {
  public:
    int32_t size() const;
    // After those of equal rank. REQUIRES: not in the queue.
    void push(BlockId block, const EvictionRank& rank);
    // REQUIRES: in the queue.
    void remove(BlockId block);
    // Keeps its order among those of equal rank. REQUIRES: in the queue.
    void rerank(BlockId block, const EvictionRank& rank);
    // Another block gets the position. REQUIRES: `from` is in the queue, `to` is not.
    void replace(BlockId from, BlockId to);
    // The block that is evicted first if values that decay are lowered by `decay`.
    std::optional<BlockId> first(double decay) const;
    bool contains(BlockId block) const;
    // REQUIRES: in the queue.
    EvictionRank rank_of(BlockId block) const;

    // Throws internal if a heap is out of order or a position is wrong.
    void check_integrity() const;

  private:
    struct Entry {
        EvictionRank rank;
        uint64_t number = 0;  // of arrival
        BlockId block = 0;
    };
    struct Position {
        int32_t index = kNone;
        bool expected = false;
    };
    static constexpr int32_t kNone = -1;
    using Heap = std::vector<Entry>;

    static bool before(const Entry& one, const Entry& other);
    Heap& heap(bool expected) { return expected ? expected_ : others_; }
    void insert(const Entry& entry);
    Entry extract(BlockId block);
    void put(Heap& heap, int32_t index, const Entry& entry);
    void rise(Heap& heap, int32_t index);
    void sink(Heap& heap, int32_t index);

    Heap others_;
    Heap expected_;
    std::vector<Position> positions_;  // per block, as far as one was ever in the queue
    uint64_t next_number_ = 0;
};

}  // namespace nvllm
