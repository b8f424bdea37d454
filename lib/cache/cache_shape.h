// Sizes of the cache that do not depend on its content: blocks of positions, groups, windows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace nvllm {

struct CacheGroupConfig {
    int32_t num_blocks = 0;
    int32_t window = 0;           // positions a query reads, itself included; 0: all
    int32_t num_host_blocks = 0;  // for sequences that are swapped out
};

class CacheShape {
  public:
    // REQUIRES: block_size >= 1; no window is negative.
    CacheShape(int32_t block_size, std::span<const CacheGroupConfig> groups);

    // Positions in a block, the same in every group.
    int32_t block_size() const { return block_size_; }
    int32_t num_groups() const { return static_cast<int32_t>(windows_.size()); }
    // Positions that a query of the group reads, itself included; 0: all.
    int32_t window(int32_t group) const { return windows_[group]; }
    bool has_windows() const { return has_windows_; }

    // Blocks that hold so many positions from a sequence's first on.
    int32_t num_blocks_for(int32_t num_positions) const {
        return (num_positions + block_size_ - 1) / block_size_;
    }
    // The first block that a query at `position`, or a later one, reads.
    int32_t first_block_read(int32_t group, int32_t position) const {
        const int32_t window = windows_[group];
        return window == 0 ? 0 : std::max(0, position - window + 1) / block_size_;
    }
    // Blocks of a group that a sequence of `num_tokens` holds at most at any time, if it computes
    // at most `largest_step` tokens in a step.
    int32_t max_blocks(int32_t group, int32_t num_tokens, int32_t largest_step) const;
    // Entries of the table of a sequence that is admitted with its first `num_matched` tokens
    // cached.
    int32_t admitted_size(int32_t group, int32_t num_matched, int32_t num_tokens,
                          int32_t largest_step) const;

  private:
    int32_t block_size_;
    std::vector<int32_t> windows_;  // per group
    bool has_windows_ = false;
};

}  // namespace nvllm
