// The adapters of a worker without a model: each takes a few plans to be loaded and placed, and
// promises of plans are checked.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "lib/request/adapter.h"
#include "lib/schedule/adapter_stats.h"

namespace nvllm {

class FakeAdapters {
  public:
    // Loading and placing take so many plans, adapter by adapter, in turn from the list.
    std::vector<int> delays = {0};
    // Those that cannot be loaded.
    std::set<int32_t> broken;
    AdapterTierLimits limits = {8, 8};

    // What a plan says, and what has ended since. `in_use`: by plans that are not committed.
    std::vector<AdapterEvent> begin(std::span<const AdapterChange> changes, bool awaits,
                                    const std::set<int32_t>& in_use) {
        for (const AdapterChange& change : changes) apply(change, in_use);
        wrong += static_cast<int32_t>(held_.size()) > limits.max_cpu_loras;
        std::vector<AdapterEvent> events;
        for (auto& [id, held] : held_) advance(id, held, awaits, events);
        return events;
    }
    bool is_placed(int32_t adapter) const {
        const auto found = held_.find(adapter);
        return found != held_.end() && found->second.is_placed;
    }
    bool has_failed(int32_t adapter) const { return broken.contains(adapter); }
    void restart() { held_.clear(); }

    int64_t wrong = 0;
    int64_t num_placed = 0;

  private:
    struct Held {
        int plans_left = 0;
        bool is_loaded = false;
        int32_t slot = 0;
        bool is_placed = false;
    };

    int next_delay() { return delays[turn_++ % delays.size()]; }

    void apply(const AdapterChange& change, const std::set<int32_t>& in_use) {
        if (change.action == AdapterAction::load) {
            wrong += change.folder.empty();
            wrong += !held_.emplace(change.adapter, Held{.plans_left = next_delay()}).second;
            return;
        }
        const auto found = held_.find(change.adapter);
        if (found == held_.end()) {
            ++wrong;
            return;
        }
        Held& held = found->second;
        if (change.action == AdapterAction::place) {
            wrong += held.slot != 0 || change.slot < 1 || change.slot > limits.max_loras;
            for (const auto& [id, other] : held_) wrong += other.slot == change.slot;
            held.slot = change.slot;
            held.plans_left += next_delay();
            return;
        }
        wrong += in_use.contains(change.adapter);
        held.slot = 0;
        held.is_placed = false;
        if (change.action == AdapterAction::drop) held_.erase(found);
    }

    // A worker that has nothing else to do waits for something.
    void advance(int32_t id, Held& held, bool awaits, std::vector<AdapterEvent>& events) {
        const bool is_done = held.is_placed || (held.is_loaded && held.slot == 0);
        if (is_done || (!awaits && held.plans_left-- > 0)) return;
        if (broken.contains(id)) {
            AdapterEvent& event = events.emplace_back();
            event.adapter = id;
            event.stage = AdapterStage::failed;
            event.fault = Fault{ErrorKind::bad_data, "broken"};
            held.is_placed = true;  // nothing more is told of it
            return;
        }
        if (!held.is_loaded) events.push_back({id, AdapterStage::loaded, 100, 1.0});
        held.is_loaded = true;
        if (held.slot == 0) return;
        events.push_back({id, AdapterStage::placed, 100, 1.0});
        held.is_placed = true;
        ++num_placed;
    }

    std::map<int32_t, Held> held_;
    size_t turn_ = 0;
};

}  // namespace nvllm
