// How ranks in processes of their own are started and found, by the options.
#pragma once

#include <string>

#include "lib/engine/engine_config.h"
#include "lib/execute/ranks/rank_launcher.h"

namespace nvllm {

// Whether ranks are processes that a launcher starts.
bool has_own_processes(RankBackend backend);

// The module that carries their data. Throws unavailable: what is missing, and how to do without.
std::string rank_collectives();

// Throws usage where an option that others need is missing.
RankLaunch rank_launch(const ParallelOptions& options);

}  // namespace nvllm
