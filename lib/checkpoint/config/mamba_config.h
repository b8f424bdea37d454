// Settings of Mamba-2 out of config.json, by the names that a family has for them.
#pragma once

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/family_defaults.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {

// As read_linear_attention().
LinearAttentionConfig read_mamba(const ConfigFields& fields, const MambaKeys& keys,
                                 const ModelConfig& config);

}  // namespace nvllm
