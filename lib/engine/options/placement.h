// From an engine's options to where its threads run and its memory lies.
#pragma once

#include "kernels/host/cpu_placement.h"
#include "lib/engine/engine_config.h"

namespace nvllm {

// What an engine's options ask for.
PlacementOptions placement_options(const EngineConfig& config);

// Throws usage, naming the processors that may be used, when --cpu-mask holds others.
CpuPlacement engine_placement(const EngineConfig& config,
                              const CpuResources& resources = read_cpu_resources());

}  // namespace nvllm
