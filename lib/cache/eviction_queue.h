// Cached blocks that nobody uses, with the one that goes first at hand: binary heaps in which a
// block's place is known, so that it can be taken out or ranked anew.
//
// Blocks that waiting sequences will ask for stand in a heap of their own, because their values do
// not age as the others' do.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace nvllm {

// The physical number of a block in its group, from 0.
using BlockId = int32_t;

struct EvictionRank {
    bool has_children = false;  // goes after all that have none
    bool expected = false;      // its value does not age
    double value = 0.0;         // the smaller goes first
};

// Every change costs a logarithm of the size, every question O(1).
class EvictionQueue {
  public:
    int32_t size() const;
    // Behind those of equal rank. REQUIRES: not in the queue.
    void push(BlockId block, const EvictionRank& rank);
    // REQUIRES: in the queue.
    void remove(BlockId block);
    // Keeps its place among those of equal rank. REQUIRES: in the queue.
    void rank_anew(BlockId block, const EvictionRank& rank);
    // Another block takes over the place. REQUIRES: `from` is in the queue, `to` is not.
    void replace(BlockId from, BlockId to);
    // What goes first, when values that age are lowered by `ageing`.
    std::optional<BlockId> first(double ageing) const;
    bool contains(BlockId block) const;
    // REQUIRES: in the queue.
    EvictionRank rank_of(BlockId block) const;

    // Throws internal when a heap is out of order or a place is wrong.
    void check_integrity() const;

  private:
    struct Entry {
        EvictionRank rank;
        uint64_t number = 0;  // of arrival
        BlockId block = 0;
    };
    struct Place {
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
    std::vector<Place> places_;  // per block, as far as one was ever in the queue
    uint64_t next_number_ = 0;
};

}  // namespace nvllm
