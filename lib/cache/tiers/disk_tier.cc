// Events, and what other processes do.
#include "lib/cache/tiers/disk_tier.h"

namespace nvllm {
namespace {

constexpr double kRefreshIntervalS = 1.0;

}  // namespace

void DiskTier::begin_plan(double now_s) {
    writes_.begin_plan();
    if (store_ == nullptr || now_s < next_refresh_s_) return;
    next_refresh_s_ = now_s + kRefreshIntervalS;
    store_->refresh();
}

void DiskTier::take_events(std::span<const DiskEvent> events) {
    for (const DiskEvent& event : events) {
        if (event.is_read) {
            reads_.take_event(event, *store_);
        } else {
            writes_.take_event(event, *store_);
        }
    }
}

void DiskTier::forget_worker() {
    reads_.clear();
    writes_.forget_moves();
    writes_.clear();
}

TierStats DiskTier::stats() const {
    return {.blocks_held = store_ == nullptr ? 0 : store_->num_contents(),
            .blocks_kept = writes_.num_blocks(),
            .blocks_back = reads_.num_blocks(),
            .blocks_dropped = 0,
            .hit_tokens = reads_.num_tokens()};
}

}  // namespace nvllm
