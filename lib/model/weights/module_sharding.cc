// Asks each linear of a module.
#include "lib/model/weights/module_sharding.h"

namespace nvllm {

ModuleSharding::ModuleSharding(WeightSource& source, std::span<const LinearSpec> linears) {
    const Shard& shard = source.part().tensor;
    if (shard.is_whole()) return;
    for (const LinearSpec& linear : linears) {
        const std::string refusal =
            why_not_cut(linear, shard.ranks, granularity_of(source, linear));
        if (refusal.empty()) continue;
        source.note_replicated(refusal);
        return;
    }
    shard_ = shard;
}

std::vector<LinearSpec> ModuleSharding::of(std::span<const LinearSpec> linears) const {
    std::vector<LinearSpec> slices;
    for (const LinearSpec& linear : linears) slices.push_back(of(linear));
    return slices;
}

}  // namespace nvllm
