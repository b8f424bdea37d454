// Which ranks have which experts, by the options.
#pragma once

#include "lib/engine/engine_start.h"

namespace nvllm {

// Shares out the experts of metadata.model, which was made without that: among the ranks of all
// replicas, else among those of one, else of no layer. Sets shares_experts, and what of the options
// and of the model follows. Throws usage for copies that ranks cannot have as many of each, and
// what read_expert_load() throws.
void share_out_experts(EngineMetadata& metadata, const ParallelOptions& parallel);

}  // namespace nvllm
