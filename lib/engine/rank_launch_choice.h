// How ranks in processes of their own are started and found, by the options.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/engine/device_choice.h"
#include "lib/engine/engine_config.h"
#include "lib/execute/ranks/rank_launcher.h"
#include "lib/parallel/replica_place.h"

namespace nvllm {

// Whether ranks are processes that a launcher starts.
bool has_own_processes(RankBackend backend);

// The module that carries their data. Throws unavailable: what is missing, and how to do without.
std::string rank_collectives();

// Of one of the replicas: of an address with a port, the first one has that port, and each further
// one the next. Throws usage where an option that others need is missing.
RankLaunch rank_launch(const ParallelOptions& options, const ReplicaPlace& place);

// Of so many ranks that are started together: of one replica, or of all. Ranks on devices have a
// process of their own, which can be ended while one of them waits for another. Throws what
// rank_launch() throws.
std::unique_ptr<RankLauncher> rank_launcher(const EngineConfig& config, const ReplicaPlace& place,
                                            int32_t num_ranks, const ChosenDevice& device);

}  // namespace nvllm
