// What several replicas of a model come to together.
#pragma once

#include <span>

#include "lib/engine/engine.h"

namespace nvllm {

// Counts are added; fragmentation is that of the most fragmented cache, the heartbeat the oldest.
// REQUIRES: there is one.
EngineStats sum_of(std::span<const EngineStats> replicas);

// The state is that of the replica that is best off, but stalled when any is: another one takes
// what is new, and only a stalled one keeps what it has. The fault is the latest known one, the
// process the first replica's. REQUIRES: there is one.
EngineHealth health_of(std::span<const EngineHealth> replicas);

}  // namespace nvllm
