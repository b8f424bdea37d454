// Member by member.
#include "lib/engine/replicas/replica_sums.h"

#include <algorithm>
#include <initializer_list>

namespace nvllm {
namespace {

template <typename Stats, typename Count>
void add(Stats& sum, const Stats& one, std::initializer_list<Count Stats::*> members) {
    for (Count Stats::*const member : members) sum.*member += one.*member;
}

// Each once.
void add_names(std::vector<std::string>& sum, const std::vector<std::string>& more) {
    for (const std::string& name : more) {
        if (std::ranges::find(sum, name) == sum.end()) sum.push_back(name);
    }
}

void add(SpeculationStats& sum, const SpeculationStats& one) {
    using S = SpeculationStats;
    add(sum, one, {&S::drafts, &S::draft_tokens, &S::accepted_tokens});
    for (size_t i = 0; i < sum.accepted_per_position.size(); ++i) {
        sum.accepted_per_position[i] += one.accepted_per_position[i];
    }
}

void add(AdapterStats& sum, const AdapterStats& one) {
    using A = AdapterStats;
    add(sum, one, {&A::num_hot, &A::num_warm});
    add(sum, one, {&A::loads, &A::places, &A::evictions, &A::failures});
    add(sum, one, {&A::loaded_bytes, &A::placed_bytes});
    add(sum, one, {&A::load_ms, &A::place_ms});
    using Arrivals = AdapterArrivals;
    add(sum.arrivals, one.arrivals, {&Arrivals::hot, &Arrivals::warm, &Arrivals::cold});
    add_names(sum.running, one.running);
    add_names(sum.waiting, one.waiting);
    // One that runs somewhere does not wait.
    std::erase_if(sum.waiting, [&](const std::string& name) {
        return std::ranges::find(sum.running, name) != sum.running.end();
    });
}

void add(SchedulerStats& sum, const SchedulerStats& one) {
    using S = SchedulerStats;
    add(sum, one,
        {&S::num_running, &S::num_waiting, &S::num_paused, &S::num_swapped, &S::num_awaiting,
         &S::token_budget});
    add(sum, one,
        {&S::steps, &S::scheduled_tokens, &S::prefill_tokens, &S::filled_slots, &S::preemptions,
         &S::swaps_out, &S::swaps_in, &S::recomputed_tokens, &S::pauses, &S::aged_admissions,
         &S::remote_waits, &S::remote_tokens, &S::remote_expiries, &S::worker_resets,
         &S::stalled_steps});
    add(sum.speculation, one.speculation);
    add(sum.adapters, one.adapters);
}

void add(TierStats& sum, const TierStats& one) {
    using T = TierStats;
    add(sum, one,
        {&T::blocks_held, &T::blocks_kept, &T::blocks_back, &T::blocks_dropped, &T::hit_tokens});
}

void add(CacheStats& sum, const CacheStats& one) {
    using B = BlockCounts;
    add(sum.blocks, one.blocks, {&B::total, &B::used, &B::cached, &B::free});
    sum.blocks.evictions += one.blocks.evictions;
    add(sum, one, {&CacheStats::queried_tokens, &CacheStats::hit_tokens});
    add(sum.host_tier, one.host_tier);
    // Replicas share their folder.
    const int64_t on_disk = std::max(sum.disk_tier.blocks_held, one.disk_tier.blocks_held);
    add(sum.disk_tier, one.disk_tier);
    sum.disk_tier.blocks_held = on_disk;
}

void add(FaultCounts& sum, const FaultCounts& one) {
    using F = FaultCounts;
    add(sum, one,
        {&F::worker_restarts, &F::step_faults, &F::nonfinite_rows, &F::weight_reloads,
         &F::out_of_memory});
    sum.last_out_of_memory = std::max(sum.last_out_of_memory, one.last_out_of_memory);
}

// The best first.
int rank_of(EngineState state) {
    switch (state) {
        case EngineState::running:
            return 0;
        case EngineState::recovering:
            return 1;
        case EngineState::stalled:
            return 2;
        case EngineState::failed:
            return 3;
    }
    return 3;
}

}  // namespace

EngineStats sum_of(std::span<const EngineStats> replicas) {
    EngineStats sum = replicas.front();
    for (const EngineStats& one : replicas.subspan(1)) {
        add(sum.scheduler, one.scheduler);
        add(sum.cache, one.cache);
        add(sum.faults, one.faults);
        sum.device += one.device;
        sum.fragmentation = std::max(sum.fragmentation, one.fragmentation);
        sum.seconds_since_heartbeat =
            std::max(sum.seconds_since_heartbeat, one.seconds_since_heartbeat);
    }
    return sum;
}

EngineHealth health_of(std::span<const EngineHealth> replicas) {
    EngineHealth health = replicas.front();
    bool any_stalls = false;
    for (const EngineHealth& one : replicas) {
        any_stalls = any_stalls || one.state == EngineState::stalled;
        if (rank_of(one.state) < rank_of(health.state)) health.state = one.state;
    }
    if (any_stalls) health.state = EngineState::stalled;
    for (const EngineHealth& one : replicas.subspan(1)) {
        health.seconds_since_heartbeat =
            std::max(health.seconds_since_heartbeat, one.seconds_since_heartbeat);
        health.worker_restarts += one.worker_restarts;
        health.weight_reloads += one.weight_reloads;
        if (!one.last_fault.empty()) health.last_fault = one.last_fault;
    }
    return health;
}

}  // namespace nvllm
