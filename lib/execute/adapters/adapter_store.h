// The adapters of a worker: in host memory, and in the slots from which steps use them.
//
// Files are read and copied to a device beside steps (AdapterLoader); tables of slots change
// between steps. Used by the worker's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "lib/base/result.h"
#include "lib/execute/adapters/adapter_loader.h"
#include "lib/execute/worker_config.h"
#include "lib/model/lora/adapter_slots.h"
#include "lib/request/adapter.h"

namespace nvllm {

class AdapterStore {
  public:
    // `widest`: values of wider types are rounded to it.
    AdapterStore(std::unique_ptr<const LoraTargets> targets, const AdapterLimits& limits,
                 DType widest, const ComputeDevice& device);

    // Begins what a plan says. `stream`: where steps compute.
    void begin(std::span<const AdapterChange> changes, void* stream);
    // Returns when something that was begun has ended, or when so much time has passed.
    void await_any(std::chrono::milliseconds most, void* stream);
    // Returns when the adapter is placed or has failed, as one does that nothing was begun for.
    void await(int32_t adapter, void* stream);
    // Forgets all adapters: the slots are empty.
    void clear(void* stream);

    // What has ended since the last call.
    std::vector<AdapterEvent> take_events();
    // 0: it is in none.
    int32_t slot_of(int32_t adapter) const;
    // Why it is not to be had; nothing: it is, or will be.
    std::optional<Fault> fault_of(int32_t adapter) const;
    const AdapterSlots& slots() const { return slots_; }

  private:
    // An adapter that is to be loaded. A job belongs to it by its number.
    struct Held {
        std::shared_ptr<const Adapter> adapter;  // null: not yet
        int32_t wanted_slot = 0;                 // 0: none
        int32_t slot = 0;
        uint64_t job = 0;  // 0: none is under way
        std::optional<Fault> fault;
    };

    void settle(std::vector<AdapterJob> done, void* stream);
    void settle(AdapterJob& job, int32_t id, Held& held, void* stream);
    void load(const AdapterChange& change);
    void place(int32_t id, Held& held, void* stream);
    void finish_place(int32_t id, Held& held, const std::byte* base, double ms, void* stream);
    void leave_slot(Held& held, void* stream);
    std::byte* memory_of(int32_t slot, size_t bytes);

    std::unique_ptr<const LoraTargets> targets_;
    ComputeDevice device_;
    AdapterSlots slots_;
    // Of slots, of a device other than the CPU, and its bytes.
    std::vector<std::pair<DeviceMemory, size_t>> memory_;
    std::map<int32_t, Held> held_;
    uint64_t last_job_ = 0;
    std::vector<AdapterEvent> events_;
    AdapterLoader loader_;  // ends first
};

}  // namespace nvllm
