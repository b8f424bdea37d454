// Joins the lists of an engine's parts in the order of the help text.
#include "lib/engine/options/engine_options.h"

#include "lib/engine/options/part_options.h"

namespace nvllm {

OptionList<EngineConfig> engine_options(WithModel with_model) {
    OptionList<EngineConfig> list("engine");
    list.include(&EngineConfig::model, model_options(with_model));
    list.include(&EngineConfig::compute, compute_options());
    list.include(&EngineConfig::memory, memory_options());
    list.include(&EngineConfig::kv_cache, kv_cache_options());
    list.include(&EngineConfig::memory, swap_options());
    list.include(nested(&EngineConfig::scheduling, &SchedulingOptions::scheduler),
                 defragmentation_options());
    list.include(&EngineConfig::scheduling, scheduling_options());
    list.include(&EngineConfig::speculation, speculation_options());
    list.include(&EngineConfig::lora, lora_options());
    list.include(&EngineConfig::inspection, inspection_options());
    return list;
}

}  // namespace nvllm
