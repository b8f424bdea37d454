// Blocks in host memory (CPU blocks), a fixed number for each cache group: of sequences that are
// swapped out, of contents of the prefix cache, and of copies to and from files. It counts blocks;
// the worker has the memory and copies. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nvllm {

// The number of a host block in its group, from 0.
using HostBlockId = int32_t;

// One block to copy between device and host, in the direction of the call that returned it.
struct SwapMove {
    int32_t group = 0;
    int32_t device_block = 0;
    HostBlockId host_block = 0;
    int32_t table_index = 0;
};

struct SwapCounts {
    int64_t blocks_out = 0;
    int64_t blocks_in = 0;
    int64_t blocks_found = 0;  // of those out, still cached on the device at swap-in
    int64_t sequences_out = 0;
    int64_t sequences_in = 0;
};

class SwapSpace {
  public:
    // No group needs to have any. REQUIRES: no size is negative.
    explicit SwapSpace(std::span<const int32_t> group_sizes);

    // With one reference. REQUIRES: a block of the group is free.
    HostBlockId take(int32_t group);
    // One reference more. REQUIRES: the block is taken.
    void share(int32_t group, HostBlockId block);
    // One reference less; without any the block is free. REQUIRES: the block is taken.
    void free(int32_t group, HostBlockId block);

    int32_t num_total(int32_t group) const {
        return static_cast<int32_t>(groups_[group].references.size());
    }
    int32_t num_free(int32_t group) const {
        return static_cast<int32_t>(groups_[group].free.size());
    }
    int32_t num_used(int32_t group) const { return num_total(group) - num_free(group); }
    int32_t references(int32_t group, HostBlockId block) const {
        return groups_[group].references[block];
    }

    // Throws internal when a block is free twice, or free and taken.
    void check_integrity() const;

  private:
    struct Group {
        std::vector<HostBlockId> free;  // the next one last
        std::vector<int32_t> references;
    };
    std::vector<Group> groups_;
};

}  // namespace nvllm
