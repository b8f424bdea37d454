// The option lists of an engine's parts. A new option is a member of the part's struct and a line
// in the part's list.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/engine/options/engine_options.h"

namespace nvllm {

OptionList<ModelChoice> model_options(WithModel with_model);
OptionList<ComputeOptions> compute_options();
// Limits of memory; and, apart, the space for preempted sequences.
OptionList<MemoryRequest> memory_options();
OptionList<MemoryRequest> swap_options();
OptionList<KvCacheOptions> kv_cache_options();
// When blocks are moved together, under the heading of memory; and the scheduler's other options.
OptionList<SchedulerConfig> defragmentation_options();
OptionList<SchedulingOptions> scheduling_options();
OptionList<SpeculationOptions> speculation_options();
OptionList<LoraOptions> lora_options();
OptionList<InspectionOptions> inspection_options();

// The words of an option that names a row of a table.
template <typename Row>
std::vector<std::string> names_of(std::span<const Row> rows) {
    std::vector<std::string> names;
    for (const Row& row : rows) names.emplace_back(row.name);
    return names;
}

}  // namespace nvllm
