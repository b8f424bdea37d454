// What the options of speculative decoding say.
#pragma once

#include "lib/engine/engine_config.h"
#include "lib/schedule/speculation/speculation_config.h"

namespace nvllm {

// Reads the JSON object of --speculative-config and the short forms; without any of them nothing is
// proposed. Throws usage, naming the option or the key, for what cannot be.
SpeculationConfig speculation_config(const SpeculationOptions& options);

}  // namespace nvllm
