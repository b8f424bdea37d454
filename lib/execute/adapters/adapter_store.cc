// What becomes of each adapter.
#include "lib/execute/adapters/adapter_store.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/error.h"

namespace nvllm {

AdapterStore::AdapterStore(std::unique_ptr<const LoraTargets> targets, const AdapterLimits& limits,
                           DType widest, const ComputeDevice& device)
    : targets_(std::move(targets)),
      device_(device),
      slots_(*targets_, limits.max_loras, limits.max_rank, device),
      memory_(static_cast<size_t>(limits.max_loras) + 1),
      loader_(*targets_, widest, device) {}

void AdapterStore::begin(std::span<const AdapterChange> changes, void* stream) {
    settle(loader_.take_done(), stream);
    for (const AdapterChange& change : changes) {
        if (change.action == AdapterAction::load) {
            load(change);
            continue;
        }
        const auto found = held_.find(change.adapter);
        NVLLM_CHECK(found != held_.end(), "an adapter is loaded first");
        Held& held = found->second;
        switch (change.action) {
            case AdapterAction::place:
                held.wanted_slot = change.slot;
                place(change.adapter, held, stream);
                break;
            case AdapterAction::clear:
                leave_slot(held, stream);
                break;
            default:
                leave_slot(held, stream);
                held_.erase(found);
        }
    }
}

void AdapterStore::load(const AdapterChange& change) {
    Held& held = held_[change.adapter];
    held = {};
    held.job = ++last_job_;
    loader_.add({.number = held.job,
                 .folder = change.folder,
                 .digest = change.digest,
                 .adapter = nullptr,
                 .fault = {}});
}

void AdapterStore::place(int32_t id, Held& held, void* stream) {
    if (held.adapter == nullptr || held.wanted_slot == 0) return;
    const Adapter& adapter = *held.adapter;
    if (device_.is_cpu()) return finish_place(id, held, adapter.data(), 0.0, stream);
    held.job = ++last_job_;
    loader_.add({.number = held.job,
                 .folder = {},
                 .adapter = held.adapter,
                 .to = memory_of(held.wanted_slot, adapter.bytes()),
                 .fault = {}});
}

void AdapterStore::finish_place(int32_t id, Held& held, const std::byte* base, double ms,
                                void* stream) {
    held.slot = std::exchange(held.wanted_slot, 0);
    slots_.set(held.slot, *held.adapter, base, stream);
    events_.push_back({id, AdapterStage::placed, held.adapter->bytes(), ms});
}

// Nothing that was under way for it counts any more.
void AdapterStore::leave_slot(Held& held, void* stream) {
    if (held.slot > 0) slots_.clear(std::exchange(held.slot, 0), stream);
    if (std::exchange(held.wanted_slot, 0) > 0 && held.adapter != nullptr) held.job = 0;
}

std::byte* AdapterStore::memory_of(int32_t slot, size_t bytes) {
    auto& [memory, capacity] = memory_[static_cast<size_t>(slot)];
    if (capacity < bytes) {
        memory = nullptr;
        capacity = 0;
        memory = device_.allocate(bytes);
        capacity = bytes;
    }
    return memory.get();
}

void AdapterStore::settle(std::vector<AdapterJob> done, void* stream) {
    for (AdapterJob& job : done) {
        for (auto& [id, held] : held_) {
            if (held.job == job.number) settle(job, id, held, stream);
        }
    }
}

void AdapterStore::settle(AdapterJob& job, int32_t id, Held& held, void* stream) {
    held.job = 0;
    if (job.fault) {
        held.fault = std::move(job.fault);
        AdapterEvent& event = events_.emplace_back();
        event.adapter = id;
        event.stage = AdapterStage::failed;
        event.fault = held.fault;
        return;
    }
    if (held.adapter != nullptr) return finish_place(id, held, job.to, job.ms, stream);
    held.adapter = std::move(job.adapter);
    events_.push_back({id, AdapterStage::loaded, held.adapter->bytes(), job.ms});
    place(id, held, stream);
}

void AdapterStore::await_any(std::chrono::milliseconds most, void* stream) {
    if (events_.empty()) settle(loader_.take_done(most), stream);
}

void AdapterStore::await(int32_t adapter, void* stream) {
    constexpr std::chrono::milliseconds kStep{100};
    settle(loader_.take_done(), stream);
    while (slot_of(adapter) == 0 && !fault_of(adapter)) settle(loader_.take_done(kStep), stream);
}

void AdapterStore::clear(void* stream) {
    for (auto& [id, held] : held_) leave_slot(held, stream);
    held_.clear();
    events_.clear();
}

std::vector<AdapterEvent> AdapterStore::take_events() { return std::exchange(events_, {}); }

int32_t AdapterStore::slot_of(int32_t adapter) const {
    const auto found = held_.find(adapter);
    return found == held_.end() ? 0 : found->second.slot;
}

std::optional<Fault> AdapterStore::fault_of(int32_t adapter) const {
    const auto found = held_.find(adapter);
    if (found == held_.end() ||
        (found->second.slot == 0 && found->second.job == 0 && !found->second.fault)) {
        return Fault{ErrorKind::not_found, fmt::format("adapter {} is not loaded", adapter)};
    }
    return found->second.fault;
}

}  // namespace nvllm
