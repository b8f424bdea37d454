// Loads, slots and drains.
#include "lib/schedule/state/adapter_tiers.h"

#include <algorithm>

#include "kernels/error.h"

namespace nvllm {
namespace {

// Waiting sequences for which something is begun. Adapters of later ones come when they are nearer.
constexpr size_t kLookAhead = 256;
// Sequences that may pass one that waits for a slot.
constexpr int32_t kMaxPasses = 16;

}  // namespace

void AdapterTiers::add(const AdapterRef& adapter) {
    if (adapter.id == 0) return;
    Known& known = known_[adapter.id];
    known.ref = adapter;
    ++known.num_requests;
    const bool is_hot = known.tier == AdapterTier::hot;
    counters_.arrivals.hot += is_hot ? 1 : 0;
    counters_.arrivals.warm += is_warm(known) ? 1 : 0;
    counters_.arrivals.cold += is_hot || is_warm(known) ? 0 : 1;
}

AdapterTier AdapterTiers::tier_of(int32_t adapter) const {
    const auto found = known_.find(adapter);
    return found == known_.end() ? AdapterTier::cold : found->second.tier;
}

bool AdapterTiers::is_warm(const Known& known) {
    return known.tier == AdapterTier::loading || known.tier == AdapterTier::warm ||
           known.tier == AdapterTier::placing;
}

void AdapterTiers::release(int32_t adapter) {
    if (adapter == 0) return;
    Known& known = known_.at(adapter);
    NVLLM_CHECK(known.num_requests > 0, "a request ends once");
    --known.num_requests;
}

void AdapterTiers::retire(int32_t adapter) {
    const auto found = known_.find(adapter);
    if (found != known_.end()) found->second.is_retired = true;
}

void AdapterTiers::plan(const WaitingQueue& waiting, const RunningSet& running,
                        const PlansInFlight& plans, std::vector<AdapterChange>& changes) {
    if (known_.empty() || limits_.max_loras == 0) return;
    ++num_plans_;
    count_running(running, plans);
    drop_unneeded(changes);
    // Those that hold blocks come first: others may wait for the blocks.
    const SequenceId blocked = begin_for_waiting(waiting, true, changes);
    const SequenceId other = begin_for_waiting(waiting, false, changes);
    drain_for(blocked != 0 ? blocked : other);
}

// Returns the first that got no slot; 0: all have one.
SequenceId AdapterTiers::begin_for_waiting(const WaitingQueue& waiting, bool paused,
                                           Changes& changes) {
    SequenceId blocked = 0;
    const size_t count = std::min(waiting.size(), kLookAhead);
    for (size_t i = 0; i < count; ++i) {
        const ScheduledSequence& scheduled = waiting[i];
        const int32_t id = scheduled.request->request.adapter.id;
        if (id == 0 || scheduled.request->is_paused_for_client) continue;
        if ((scheduled.sequence.state == SequenceState::paused) != paused) continue;
        Known& known = known_.at(id);
        const bool has_slot = begin_for(known, changes);
        if (!has_slot && blocked == 0) blocked = scheduled.sequence.id;
        if (id != draining_) known.wanted_in = num_plans_;
    }
    return blocked;
}

void AdapterTiers::count_running(const RunningSet& running, const PlansInFlight& plans) {
    for (auto& [id, known] : known_) known.num_running = 0;
    const auto count = [&](const ScheduledSequence& scheduled) {
        const int32_t id = scheduled.request->request.adapter.id;
        if (id == 0) return;
        Known& known = known_.at(id);
        ++known.num_running;
        known.last_use = num_plans_;
    };
    for (const ScheduledSequence* scheduled : running.all()) count(*scheduled);
    for (const PlanInFlight& plan : plans.all()) {
        for (const PlannedEntry& entry : plan.entries) count(*entry.sequence);
    }
}

void AdapterTiers::drop_unneeded(Changes& changes) {
    for (auto at = known_.begin(); at != known_.end();) {
        Known& known = at->second;
        const bool is_idle = known.num_requests == 0 && known.num_running == 0;
        const bool leaves = known.is_retired || known.tier == AdapterTier::failed;
        if (is_idle && leaves) drop(known, changes);
        at = is_idle && known.tier == AdapterTier::cold ? known_.erase(at) : std::next(at);
    }
}

// Whether it has a slot, or will have one.
bool AdapterTiers::begin_for(Known& known, Changes& changes) {
    if (known.slot > 0 || known.tier == AdapterTier::failed) return true;
    if (known.tier == AdapterTier::cold) {
        if (!make_host_room(changes)) return false;
        known.tier = AdapterTier::loading;
        changes.push_back(
            {AdapterAction::load, known.ref.id, 0, known.ref.folder, known.ref.digest});
    }
    known.slot = take_slot(changes);
    if (known.slot == 0) return false;
    if (known.tier == AdapterTier::warm) known.tier = AdapterTier::placing;
    changes.push_back({AdapterAction::place, known.ref.id, known.slot});
    return true;
}

bool AdapterTiers::make_host_room(Changes& changes) {
    const auto is_held = [](const auto& pair) {
        return pair.second.tier != AdapterTier::cold && pair.second.tier != AdapterTier::failed;
    };
    if (std::ranges::count_if(known_, is_held) < limits_.max_cpu_loras) return true;
    Known* victim = least_recent(AdapterTier::warm);
    if (victim == nullptr) {
        victim = least_recent(AdapterTier::hot);
        if (victim == nullptr) return false;
        ++counters_.evictions;
    }
    drop(*victim, changes);
    return true;
}

int32_t AdapterTiers::take_slot(Changes& changes) {
    std::vector<bool> taken(static_cast<size_t>(limits_.max_loras) + 1);
    for (const auto& [id, known] : known_) taken[static_cast<size_t>(known.slot)] = true;
    for (int32_t slot = 1; slot <= limits_.max_loras; ++slot) {
        if (!taken[static_cast<size_t>(slot)]) return slot;
    }
    Known* const victim = least_recent(AdapterTier::hot);
    if (victim == nullptr) return 0;
    ++counters_.evictions;
    victim->tier = AdapterTier::warm;
    changes.push_back({AdapterAction::clear, victim->ref.id});
    return std::exchange(victim->slot, 0);
}

// Of those that no sequence has that runs or that waits before the one in question.
AdapterTiers::Known* AdapterTiers::least_recent(AdapterTier tier) {
    Known* found = nullptr;
    for (auto& [id, known] : known_) {
        if (known.tier != tier || known.num_running > 0 || known.wanted_in == num_plans_) continue;
        if (found == nullptr || known.last_use < found->last_use) found = &known;
    }
    return found;
}

void AdapterTiers::drop(Known& known, Changes& changes) {
    if (known.tier != AdapterTier::cold) changes.push_back({AdapterAction::drop, known.ref.id});
    known.tier = AdapterTier::cold;
    known.slot = 0;
}

// The adapter that is drained is the one whose sequences end soonest, as far as can be told.
void AdapterTiers::drain_for(SequenceId blocked) {
    if (blocked != blocked_) {
        blocked_ = blocked;
        num_passes_ = 0;
        draining_ = 0;
    }
    if (blocked == 0 || draining_ != 0 || num_passes_ < kMaxPasses) return;
    const Known* found = nullptr;
    for (const auto& [id, known] : known_) {
        if (known.tier != AdapterTier::hot || known.wanted_in == num_plans_) continue;
        if (found == nullptr || known.num_running < found->num_running) found = &known;
    }
    // Sequences that waited before the blocked one have all others: one of theirs it is.
    for (const auto& [id, known] : known_) {
        if (found != nullptr) break;
        if (known.tier == AdapterTier::hot) found = &known;
    }
    if (found != nullptr) draining_ = found->ref.id;
}

bool AdapterTiers::may_run(const ScheduledSequence& scheduled) const {
    const int32_t id = scheduled.request->request.adapter.id;
    if (id == 0 || limits_.max_loras == 0) return true;
    const Known& known = known_.at(id);
    if (known.tier == AdapterTier::failed) return true;
    if (known.tier != AdapterTier::hot) return false;
    // Beams wait for each other.
    return id != draining_ || (scheduled.is_beam() && scheduled.request->beams->has_slots);
}

void AdapterTiers::take(std::span<const AdapterEvent> events) {
    for (const AdapterEvent& event : events) {
        const auto found = known_.find(event.adapter);
        if (found == known_.end()) continue;
        Known& known = found->second;
        if (event.stage == AdapterStage::loaded && known.tier == AdapterTier::loading) {
            known.tier = known.slot > 0 ? AdapterTier::placing : AdapterTier::warm;
            known.bytes = event.bytes;
            ++counters_.loads;
            counters_.loaded_bytes += event.bytes;
            counters_.load_ms += event.ms;
        } else if (event.stage == AdapterStage::placed && known.tier == AdapterTier::placing) {
            known.tier = AdapterTier::hot;
            known.last_use = num_plans_;
            ++counters_.places;
            counters_.placed_bytes += event.bytes;
            counters_.place_ms += event.ms;
        } else if (event.stage == AdapterStage::failed) {
            known.tier = AdapterTier::failed;
            known.slot = 0;
            ++counters_.failures;
        }
    }
}

void AdapterTiers::forget_worker() {
    for (auto& [id, known] : known_) {
        known.tier = AdapterTier::cold;
        known.slot = 0;
    }
    blocked_ = 0;
    draining_ = 0;
}

bool AdapterTiers::awaits() const {
    return std::ranges::any_of(known_, [](const auto& pair) {
        const Known& known = pair.second;
        const bool comes = known.tier == AdapterTier::loading || known.tier == AdapterTier::placing;
        return comes && known.num_requests > 0;
    });
}

AdapterStats AdapterTiers::stats() const {
    AdapterStats stats = counters_;
    for (const auto& [id, known] : known_) {
        stats.num_warm += is_warm(known) ? 1 : 0;
        stats.num_hot += known.tier == AdapterTier::hot ? 1 : 0;
        if (known.num_running > 0) {
            stats.running.push_back(known.ref.name);
        } else if (known.num_requests > 0) {
            stats.waiting.push_back(known.ref.name);
        }
    }
    return stats;
}

std::vector<AdapterState> AdapterTiers::states() const {
    std::vector<AdapterState> states;
    for (const auto& [id, known] : known_) {
        states.push_back({known.ref.name, known.ref.folder, known.tier, known.slot,
                          known.num_requests, known.num_running, known.bytes});
    }
    return states;
}

}  // namespace nvllm
