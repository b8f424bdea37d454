// The one part that each layer of a model has, out of config.json (Nemotron-H).
#pragma once

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {

// Sets layer_kinds and num_layers by layers_block_type, which newer files have, else by
// hybrid_override_pattern. Throws bad_data for a kind that is not known and for too many layers.
void read_layer_kinds(const ConfigFields& fields, ModelConfig& config);

}  // namespace nvllm
