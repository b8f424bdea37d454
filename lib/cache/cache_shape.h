// Sizes of the cache that do not depend on its content: blocks of positions, groups, windows,
// states.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace nvllm {

// What a group of layers stores. For the cache, a latent vector is as a key and a value: one entry
// for each token. A state is one entry for each sequence.
enum class CacheGroupKind : uint8_t { paged_kv, latent, state };

struct CacheGroupConfig {
    int32_t num_blocks = 0;
    int32_t window = 0;           // positions a query reads, itself included; 0: all
    int32_t num_host_blocks = 0;  // for sequences that are swapped out
    // Of kind state: each block is a slot for one state, see StateSlots; there is no window.
    CacheGroupKind kind = CacheGroupKind::paged_kv;
};

class CacheShape {
  public:
    // `has_checkpoints`: states are copied at block boundaries, for the prefix cache. REQUIRES:
    // block_size >= 1; no window is negative; a group of kind state has none.
    CacheShape(int32_t block_size, std::span<const CacheGroupConfig> groups,
               bool has_checkpoints = true);

    // Positions in a block, the same in every group.
    int32_t block_size() const { return block_size_; }
    int32_t num_groups() const { return static_cast<int32_t>(groups_.size()); }
    // Positions that a query of the group reads, itself included; 0: all.
    int32_t window(int32_t group) const { return groups_[group].window; }
    bool has_windows() const { return has_windows_; }
    bool is_state(int32_t group) const { return groups_[group].is_state; }
    bool has_states() const { return has_states_; }
    // Positions before and including a query's own whose cached blocks a query needs; 0: all. A
    // state group needs the checkpoint at the end of the block before: as a window of 2.
    int32_t reach(int32_t group) const { return groups_[group].reach; }

    // Blocks that hold so many positions from a sequence's first on.
    int32_t num_blocks_for(int32_t num_positions) const {
        return (num_positions + block_size_ - 1) / block_size_;
    }
    // Entries of a table that holds so many positions: a state group has one.
    int32_t table_size_for(int32_t group, int32_t num_positions) const {
        return is_state(group) ? std::min(num_positions, 1) : num_blocks_for(num_positions);
    }
    // The first block that a query at `position`, or a later one, reads.
    int32_t first_block_read(int32_t group, int32_t position) const {
        const int32_t reach = groups_[group].reach;
        return reach == 0 ? 0 : std::max(0, position - reach + 1) / block_size_;
    }
    // Blocks of a group that a sequence of `num_tokens` holds at most at any time, if it computes
    // at most `largest_step` tokens in a step.
    int32_t max_blocks(int32_t group, int32_t num_tokens, int32_t largest_step) const;
    // Entries of the table of a sequence that is admitted with its first `num_matched` tokens
    // cached.
    int32_t admitted_size(int32_t group, int32_t num_matched, int32_t num_tokens,
                          int32_t largest_step) const;

  private:
    struct Group {
        int32_t window = 0;
        int32_t reach = 0;
        bool is_state = false;
    };

    int32_t block_size_;
    std::vector<Group> groups_;
    bool has_checkpoints_;
    bool has_windows_ = false;
    bool has_states_ = false;
};

}  // namespace nvllm
