// Tables of pairs, target by target.
#include "lib/model/lora/adapter_slots.h"

#include <algorithm>

#include "kernels/error.h"

namespace nvllm {

std::vector<ops::LoraLinear> largest_linears(const LoraTargets& targets, int32_t slots,
                                             int64_t max_rank) {
    static const ops::LoraPair none;  // not read
    std::vector<ops::LoraLinear> linears;
    for (const LoraTarget& target : targets.targets()) {
        linears.push_back({&none, slots, static_cast<int64_t>(target.parts.size()), max_rank});
    }
    return linears;
}

uint64_t largest_adapter_bytes(const LoraTargets& targets, int64_t rank, DType dtype) {
    int64_t values = 0;
    for (const LoraTarget& target : targets.targets()) {
        if (target.is_expert) continue;
        for (const LinearSpec& part : target.parts) {
            values += std::min(rank, std::min(part.in, part.out)) * (part.in + part.out);
        }
    }
    return static_cast<uint64_t>(values) * dtype_bytes(dtype);
}

AdapterSlots::AdapterSlots(const LoraTargets& targets, int32_t count, int64_t max_rank,
                           const ComputeDevice& device)
    : targets_(targets),
      count_(static_cast<size_t>(count)),
      max_rank_(max_rank),
      device_(device),
      pairs_(count_ * targets.num_parts()),
      linears_(targets.targets().size()),
      tables_(count_ + 1) {
    if (!device.is_cpu()) placed_ = device.allocate(pairs_.size() * sizeof(ops::LoraPair));
    update_linears();
}

size_t AdapterSlots::first_of(const LoraTarget& target) const { return count_ * target.first_pair; }

void AdapterSlots::set(int32_t slot, const Adapter& adapter, const std::byte* base, void* stream) {
    put(slot, adapter.pairs_at(base), stream);
    tables_[static_cast<size_t>(slot)] = adapter.tables_at(base, slot, device_.id());
}

void AdapterSlots::clear(int32_t slot, void* stream) {
    put(slot, {}, stream);
    tables_[static_cast<size_t>(slot)].clear();
}

void AdapterSlots::put(int32_t slot, std::span<const ops::LoraPair> pairs, void* stream) {
    NVLLM_CHECK(slot >= 1 && static_cast<size_t>(slot) <= count_, "a slot that there is");
    NVLLM_CHECK(pairs.empty() || pairs.size() == targets_.num_parts(), "pairs of these targets");
    for (const LoraTarget& target : targets_.targets()) {
        for (size_t part = 0; part < target.parts.size(); ++part) {
            const size_t row = static_cast<size_t>(slot - 1) * target.parts.size() + part;
            pairs_[first_of(target) + row] =
                pairs.empty() ? ops::LoraPair() : pairs[target.first_pair + part];
        }
    }
    if (!device_.is_cpu()) {
        device_.copy_in(stream, placed_.get(), pairs_.data(),
                        pairs_.size() * sizeof(ops::LoraPair));
    }
    update_linears();
}

void AdapterSlots::update_linears() {
    const auto* const base =
        device_.is_cpu() ? pairs_.data() : reinterpret_cast<const ops::LoraPair*>(placed_.get());
    std::vector<bool> changed;
    for (size_t i = 0; i < linears_.size(); ++i) {
        const LoraTarget& target = targets_.targets()[i];
        const size_t first = first_of(target);
        const auto own = std::span(pairs_).subspan(first, count_ * target.parts.size());
        const bool is_used =
            std::ranges::any_of(own, [](const ops::LoraPair& pair) { return pair.out > 0; });
        changed.push_back(is_used);
        linears_[i] = {is_used ? base + first : nullptr, static_cast<int64_t>(count_),
                       static_cast<int64_t>(target.parts.size()), max_rank_};
    }
    pattern_ = patterns_.try_emplace(std::move(changed), std::ssize(patterns_)).first->second;
}

}  // namespace nvllm
