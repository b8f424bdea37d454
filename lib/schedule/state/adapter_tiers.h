// Which adapters are where: on disk, in host memory, in the slots from which steps use them; and
// who gets a slot next.
//
// Waiting sequences get slots in their order. A slot is taken from the adapter that was used least
// recently, and never while a running sequence or an uncommitted plan has it. Sequences of placed
// adapters pass one that waits for a slot, but only so many: then an adapter is drained, which
// means that no more of its sequences begin until the other one has the slot.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/request/adapter.h"
#include "lib/schedule/adapter_stats.h"
#include "lib/schedule/state/plans_in_flight.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/waiting_queue.h"

namespace nvllm {

class AdapterTiers {
  public:
    explicit AdapterTiers(const AdapterTierLimits& limits) : limits_(limits) {}

    // Cold where it is not known.
    AdapterTier tier_of(int32_t adapter) const;
    // A request with an adapter came; it has ended.
    void add(const AdapterRef& adapter);
    void release(int32_t adapter);
    // No request with it comes any more: it leaves when the last one that has it is done.
    void retire(int32_t adapter);

    // Before admission: what the worker is to begin for the waiting sequences.
    void plan(const WaitingQueue& waiting, const RunningSet& running, const PlansInFlight& plans,
              std::vector<AdapterChange>& changes);
    // Whether the sequence may run: its adapter is placed and not drained, or has failed, of which
    // the worker then tells. Or it has none.
    bool may_run(const ScheduledSequence& scheduled) const;
    void note_admitted() { num_passes_ += blocked_ != 0 ? 1 : 0; }
    void take(std::span<const AdapterEvent> events);
    // The worker is new: all adapters are on disk.
    void forget_worker();
    // Whether sequences wait for what the worker has begun.
    bool awaits() const;

    AdapterStats stats() const;
    // Those that the worker has, or that requests have.
    std::vector<AdapterState> states() const;

  private:
    struct Known {
        AdapterRef ref;
        AdapterTier tier = AdapterTier::cold;
        int32_t slot = 0;  // that it has, or will have; 0: none
        int32_t num_requests = 0;
        int32_t num_running = 0;  // sequences in the running set or a plan
        uint64_t bytes = 0;       // 0: not loaded yet
        uint64_t last_use = 0;    // the number of a plan
        uint64_t wanted_in = 0;   // the same: a waiting sequence that came first has it
        bool is_retired = false;
    };
    using Changes = std::vector<AdapterChange>;

    static bool is_warm(const Known& known);

    void count_running(const RunningSet& running, const PlansInFlight& plans);
    void drop_unneeded(Changes& changes);
    SequenceId begin_for_waiting(const WaitingQueue& waiting, bool paused, Changes& changes);
    bool begin_for(Known& known, Changes& changes);
    bool make_host_room(Changes& changes);
    int32_t take_slot(Changes& changes);
    Known* least_recent(AdapterTier tier);
    void drain_for(SequenceId blocked);
    void drop(Known& known, Changes& changes);

    AdapterTierLimits limits_;
    std::map<int32_t, Known> known_;
    uint64_t num_plans_ = 0;
    SequenceId blocked_ = 0;  // the first that waits for a slot; 0: none
    int32_t num_passes_ = 0;  // of it
    int32_t draining_ = 0;    // 0: none
    AdapterStats counters_;
};

}  // namespace nvllm
