// From the options of an engine to the configurations of its parts.
#pragma once

#include <vector>

#include "kernels/host/cpu_placement.h"
#include "lib/cache/cache_manager.h"
#include "lib/engine/adapters/adapter_registry.h"
#include "lib/engine/device_choice.h"
#include "lib/engine/draft_choice.h"
#include "lib/engine/engine_config.h"
#include "lib/engine/parallel_choice.h"
#include "lib/execute/memory_budget.h"
#include "lib/model/loader.h"
#include "lib/parallel/replica_place.h"
#include "lib/schedule/scheduler_config.h"

namespace nvllm {

// Everything known before any weight is read.
struct EngineMetadata {
    EngineConfig config;  // fitted to the model
    ReplicaPlace place;   // whose this is, see of_replica()
    ModelLoadOptions options;
    CpuPlacement placement;
    ChosenDevice device;  // of the first rank
    // Of each rank of each replica that this program starts on this machine; of ranks that a
    // launcher starts, which have the devices of theirs, the first alone.
    std::vector<ChosenDevice> devices;
    ModelMetadata model;
    ParallelChoice parallel;
    bool shares_experts = false;  // the replicas, of layers that have some
    DraftChoice drafts;
    LoraChoice lora;
    // Of the whole model; null: there are no adapters.
    std::shared_ptr<LoraTargets> lora_targets;
    MemoryRequest memory;
};

// Reads config.json and the headers of the weights. Throws what choose_device() and what
// engine_placement() and model_metadata() throw.
EngineMetadata engine_metadata(const EngineConfig& config);

// That of one of the replicas: its device, or its share of the processors.
EngineMetadata of_replica(const EngineMetadata& metadata, const ReplicaPlace& place);

CacheConfig cache_config(const EngineConfig& config, const MemoryPlan& plan);
SchedulerConfig scheduler_config(const EngineConfig& config, const EngineMetadata& metadata,
                                 const MemoryPlan& plan);

}  // namespace nvllm
