// Which executors carry out the plans of an engine's replicas.
#pragma once

#include <memory>
#include <vector>

#include "lib/engine/engine_start.h"
#include "lib/execute/step_executor.h"

namespace nvllm {

// One for each replica, in this process or in others, as the configuration says; not started.
// `replicas`: from of_replica(), in their order.
std::vector<std::unique_ptr<StepExecutor>> make_executors(
    const EngineConfig& config, const std::vector<EngineMetadata>& replicas,
    const MemoryPlan& plan);

}  // namespace nvllm
