// The folder in which blocks of the prefix cache outlive the process (--prefix-cache-dir).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/cache/cache_manager.h"
#include "lib/engine/engine_start.h"
#include "lib/execute/memory_budget.h"

namespace nvllm {

// What keys and values depend on beside tokens, as text: blocks of another identity are others'.
// Weights are told apart by names, sizes, times and samples of their files.
std::string cache_identity(const EngineMetadata& metadata, const MemoryPlan& plan);

// Null: none was asked for. Throws what DiskStore throws.
std::shared_ptr<DiskStore> open_disk_store(const EngineMetadata& metadata, const MemoryPlan& plan);

// The blocks of each cache group in a file.
std::vector<DiskBlock> disk_blocks(const MemoryPlan& plan);

}  // namespace nvllm
