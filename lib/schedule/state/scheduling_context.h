// What all parts of the scheduler read: configuration, policy, cache, clock and counters.
#pragma once

#include "lib/cache/cache_manager.h"
#include "lib/schedule/policy.h"
#include "lib/schedule/scheduler_config.h"
#include "lib/schedule/scheduler_stats.h"
#include "lib/schedule/state/adapter_tiers.h"

namespace nvllm {

struct SchedulingContext {
    SchedulerConfig config;
    const SchedulingPolicy& policy;
    CacheManager& cache;
    AdapterTiers adapters{config.adapters};
    SchedulerStats counters = {};
    double now_s = 0.0;  // of the latest call; the engine's clock

    // Of the waiting queue, only paused sequences and those that await remote blocks hold blocks.
    // The queue may be long: it is searched only if it had such sequences.
    bool queue_may_hold_blocks() const { return counters.pauses + counters.remote_waits > 0; }
};

}  // namespace nvllm
