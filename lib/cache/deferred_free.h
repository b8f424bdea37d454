// Blocks that a sequence freed while an uncommitted plan may still read or write them.
//
// Plans are numbered; several may be uncommitted at once. A block is freed when the last plan that
// named its sequence is committed. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/error.h"

namespace nvllm {

// A device block or a host block that waits for the commit of a plan.
struct PendingFree {
    uint64_t last_plan = 0;
    int32_t group = 0;
    int32_t block = 0;
};

class DeferredFree {
  public:
    // The plan with this number was made. REQUIRES: numbers do not fall.
    void name_plan(uint64_t plan_number) { last_named_plan_ = plan_number; }
    uint64_t last_named_plan() const { return last_named_plan_; }
    // The last plan that was made or committed.
    uint64_t last_plan() const { return std::max(last_named_plan_, committed_plan_); }
    bool is_committed(uint64_t plan_number) const { return plan_number <= committed_plan_; }
    bool all_committed() const { return last_named_plan_ <= committed_plan_; }
    // Whether device blocks wait for a commit.
    bool has_blocks() const { return !blocks_.empty(); }

    // REQUIRES: the plan is not committed.
    void add(uint64_t last_plan, int32_t group, int32_t block) {
        blocks_.push_back({last_plan, group, block});
    }
    void add_host(uint64_t last_plan, int32_t group, int32_t block) {
        host_blocks_.push_back({last_plan, group, block});
    }

    // All plans up to this one are committed. Calls `free_block(group, block)` and
    // `free_host_block(group, block)` for the blocks that waited for them, in the order in which
    // they were added. REQUIRES: numbers do not fall.
    template <typename FreeBlock, typename FreeHostBlock>
    void commit(uint64_t plan_number, FreeBlock free_block, FreeHostBlock free_host_block) {
        NVLLM_CHECK(plan_number >= committed_plan_, "plans are committed in their order");
        committed_plan_ = plan_number;
        settle(blocks_, free_block);
        settle(host_blocks_, free_host_block);
    }

    // For inspection.
    std::span<const PendingFree> blocks() const { return blocks_; }
    std::span<const PendingFree> host_blocks() const { return host_blocks_; }

  private:
    template <typename Free>
    void settle(std::vector<PendingFree>& pending, Free free) {
        if (pending.empty()) return;
        const auto rest = std::stable_partition(
            pending.begin(), pending.end(),
            [&](const PendingFree& one) { return is_committed(one.last_plan); });
        for (auto one = pending.begin(); one != rest; ++one) free(one->group, one->block);
        pending.erase(pending.begin(), rest);
    }

    std::vector<PendingFree> blocks_;  // in the order of adding
    std::vector<PendingFree> host_blocks_;
    uint64_t last_named_plan_ = 0;
    uint64_t committed_plan_ = 0;
};

}  // namespace nvllm
