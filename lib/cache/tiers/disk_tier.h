// The third tier of the prefix cache: contents in files, which outlive the process.
//
// Here are the decisions: what is written (DiskWrites), what is read (DiskReads), and where it lies
// (DiskStore). The next plan carries the copies to the worker, whose results tell how they ended.
// A sequence that waits for reads holds up no other. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lib/cache/tiers/disk_move.h"
#include "lib/cache/tiers/disk_reads.h"
#include "lib/cache/tiers/disk_store.h"
#include "lib/cache/tiers/disk_writes.h"
#include "lib/cache/tiers/tier_stats.h"

namespace nvllm {

class DiskTier {
  public:
    // `store` null: there is no such tier, and nothing below does anything.
    DiskTier(std::shared_ptr<DiskStore> store, std::vector<DiskBlock> blocks,
             const CacheShape& shape, PrefixIndex& index, ReuseHints& hints, SwapSpace& space,
             HostTier& host)
        : store_(std::move(store)),
          reads_(shape, index, hints, space, host),
          writes_(std::move(blocks), index, space, host) {}

    bool enabled() const { return store_ != nullptr; }

    // As DiskWrites and DiskReads have them.
    void add(PrefixNode& node, int32_t group) {
        if (store_ != nullptr && !store_->knows(group, node.key)) writes_.add(node, group);
    }
    void forget(const PrefixNode& node, int32_t group) {
        if (store_ != nullptr) writes_.forget(node, group, *store_);
    }
    bool begin_reads(CacheSequence& sequence, std::span<const int32_t> tokens) {
        return store_ == nullptr || reads_.begin(sequence, tokens, *store_);
    }
    bool is_reading(const CacheSequence& sequence) const { return reads_.is_under_way(sequence); }
    void end_reads(CacheSequence& sequence) { reads_.end(sequence); }

    // A plan is begun. Now and then it is looked what other processes have added.
    void begin_plan(double now_s);
    // What the plan begins to write, at most so many blocks.
    void plan_writes(int32_t most) {
        if (store_ != nullptr) writes_.plan(most, !reads_.empty(), *store_);
    }
    // Appends what the plan begins.
    void take_moves(std::vector<DiskMove>& reads, std::vector<DiskMove>& writes) {
        reads_.take_moves(reads);
        writes_.take_moves(writes);
    }
    void take_events(std::span<const DiskEvent> events);
    // The worker is new: nothing is under way, and nothing that was to be written is there.
    void forget_worker();
    // Nothing more is to be written.
    void clear() { writes_.clear(); }

    // Whether something is to be begun, or under way.
    bool has_work() const { return writes_.has_wanted() || has_moves(); }
    bool has_moves() const { return writes_.has_moves() || !reads_.empty(); }
    TierStats stats() const;
    // Of copies under way, each of which has a reference to its host block.
    template <typename Visit>
    void visit_moves(Visit visit) const {
        reads_.visit(visit);
        writes_.visit(visit);
    }

  private:
    std::shared_ptr<DiskStore> store_;
    DiskReads reads_;
    DiskWrites writes_;
    double next_refresh_s_ = 0.0;
};

}  // namespace nvllm
