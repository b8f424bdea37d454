// RoPE settings out of config.json, in its old form (rope_theta, rope_scaling) and its new one
// (rope_parameters).
#pragma once

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {

// The settings of one kind of layer. `layer_type` ("full_attention", "sliding_attention") chooses
// among settings nested by layer type. Throws bad_data for an unknown kind, a missing factor or a
// value outside sane limits. REQUIRES: max_positions, head_dim of the model checked.
RopeConfig read_rope_config(const ConfigFields& fields, const char* layer_type,
                            double default_theta, int64_t max_positions, int64_t head_dim);

}  // namespace nvllm
