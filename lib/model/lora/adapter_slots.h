// The adapters that steps may use at one time, and the tables by which ops find their matrices.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "kernels/ops/lora.h"
#include "lib/model/lora/adapter.h"
#include "lib/model/lora/lora_targets.h"

namespace nvllm {

// As if adapters of this rank changed all linears: for dry runs.
std::vector<ops::LoraLinear> largest_linears(const LoraTargets& targets, int32_t slots,
                                             int64_t max_rank);

// Of an adapter of all linears but experts, stored in this type.
uint64_t largest_adapter_bytes(const LoraTargets& targets, int64_t rank, DType dtype);

class AdapterSlots {
  public:
    // Slots from 1 to `count`, of adapters up to `max_rank`, all empty. `targets` outlives them.
    AdapterSlots(const LoraTargets& targets, int32_t count, int64_t max_rank,
                 const ComputeDevice& device);

    // The adapter at `base` in memory of the device, which lives as long as the slot has it.
    // `stream`: steps before read the old ones, steps after the new ones.
    void set(int32_t slot, const Adapter& adapter, const std::byte* base, void* stream);
    void clear(int32_t slot, void* stream);

    // By target, for LoraBatch.
    std::span<const ops::LoraLinear> linears() const { return linears_; }
    // Of one slot.
    std::span<const LoraTable> tables(int32_t slot) const {
        return tables_[static_cast<size_t>(slot)];
    }
    DType compute_type() const { return targets_.compute_type(); }
    // A number of which linears any slot changes: linears() are always the same for one.
    int64_t pattern() const { return pattern_; }

  private:
    size_t first_of(const LoraTarget& target) const;
    void put(int32_t slot, std::span<const ops::LoraPair> pairs, void* stream);
    void update_linears();

    const LoraTargets& targets_;
    size_t count_;
    int64_t max_rank_;
    ComputeDevice device_;
    std::vector<ops::LoraPair> pairs_;  // of each target [slots, parts]
    DeviceMemory placed_;               // the same, of a device other than the CPU
    std::vector<ops::LoraLinear> linears_;
    std::vector<std::vector<LoraTable>> tables_;     // by slot
    std::map<std::vector<bool>, int64_t> patterns_;  // of linears that are changed
    int64_t pattern_ = 0;
};

}  // namespace nvllm
