// What is written to files: every content that was computed, once.
//
// It is copied to a host block where it is in none, and from there to a file, beside steps. A
// content that has left all tiers before its turn is not written. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "lib/cache/prefix/prefix_index.h"
#include "lib/cache/tiers/disk_move.h"
#include "lib/cache/tiers/disk_store.h"
#include "lib/cache/tiers/host_tier.h"

namespace nvllm {

// A block of one group in a file.
struct DiskBlock {
    uint64_t bytes = 0;         // with digests
    uint64_t digest_bytes = 0;  // of those, at the end
};

class DiskWrites {
  public:
    // `blocks`: of each group.
    DiskWrites(std::vector<DiskBlock> blocks, PrefixIndex& index, SwapSpace& space, HostTier& host)
        : blocks_(std::move(blocks)), index_(index), space_(space), host_(host) {}
    DiskWrites(const DiskWrites&) = delete;
    DiskWrites& operator=(const DiskWrites&) = delete;

    // A block of the group holds the content, which is to be written.
    void add(PrefixNode& node, int32_t group);
    // The content may be wrong.
    void forget(const PrefixNode& node, int32_t group, DiskStore& store);

    // A plan is begun: blocks that are added from now on may be filled by its own copies.
    void begin_plan() { num_ready_ = wanted_.size(); }
    // Which contents the plan begins to write, at most so many; `must_wait`: something is under
    // way, after which there may be room.
    void plan(int32_t most, bool must_wait, DiskStore& store);
    // Appends what the plan begins.
    void take_moves(std::vector<DiskMove>& moves);
    void take_event(const DiskEvent& event, DiskStore& store);
    // Nothing is under way any more.
    void forget_moves();
    // Nothing more is to be written.
    void clear();

    bool has_wanted() const { return !wanted_.empty(); }
    bool has_moves() const { return !writes_.empty(); }
    int64_t num_blocks() const { return num_blocks_; }
    // Of copies under way.
    template <typename Visit>
    void visit(Visit visit) const {
        for (const Write& write : writes_) visit(write.move);
    }

  private:
    struct Wanted {
        PrefixNode* node;  // pinned
        int32_t group;
    };
    struct Write {
        DiskMove move;
        DiskRecord record;
        bool is_wrong = false;
    };

    bool is_under_way(const Wanted& wanted) const;
    bool begin(const Wanted& wanted, DiskStore& store);

    std::vector<DiskBlock> blocks_;
    PrefixIndex& index_;
    SwapSpace& space_;
    HostTier& host_;
    std::deque<Wanted> wanted_;
    size_t num_ready_ = 0;      // of those, that may be written
    std::deque<Write> writes_;  // in the order of their numbers
    size_t num_begun_ = 0;      // of those, that are in a plan
    uint64_t last_number_ = 0;
    int64_t num_blocks_ = 0;  // that are written
};

}  // namespace nvllm
