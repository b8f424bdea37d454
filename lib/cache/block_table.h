// The blocks of one sequence in one cache group, in the order of its positions.
//
// Invariant: entries before num_given_back() were freed, because they left the window, and are
// never read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/cache/block_pool.h"

namespace nvllm {

class BlockTable {
  public:
    // Entries, freed ones included: position p is in entry p / block_size.
    int32_t size() const { return static_cast<int32_t>(blocks_.size()); }
    int32_t num_given_back() const { return num_given_back_; }
    int32_t num_held() const { return size() - num_given_back_; }

    BlockId operator[](int32_t index) const { return blocks_[index]; }
    const std::vector<BlockId>& blocks() const { return blocks_; }
    // The blocks that belong to the sequence, the first position's first.
    std::span<const BlockId> held() const { return std::span(blocks_).subspan(num_given_back_); }

    // REQUIRES: index < size().
    void replace(int32_t index, BlockId block) { blocks_[index] = block; }
    void append(BlockId block) { blocks_.push_back(block); }
    // The first held entry is given back. REQUIRES: num_held() >= 1.
    BlockId give_back_first() { return blocks_[num_given_back_++]; }
    // The first `count` entries stand for positions that no query will read. REQUIRES: empty.
    void start_behind(int32_t count) {
        blocks_.assign(count, 0);
        num_given_back_ = count;
    }
    void clear() {
        blocks_.clear();
        num_given_back_ = 0;
    }

  private:
    std::vector<BlockId> blocks_;
    int32_t num_given_back_ = 0;
};

}  // namespace nvllm
