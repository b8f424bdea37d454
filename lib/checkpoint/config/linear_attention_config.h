// Settings of layers with linear attention out of config.json: those of Qwen3-Next and Qwen3.5
// (linear_key_head_dim, ...), those of Mamba-2 (mamba_d_state, ...), and of LFM2 (conv_L_cache).
#pragma once

#include <vector>

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/family_defaults.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {

// One answer a layer: whether the type that the file lists has a state. Empty: it lists none.
std::vector<bool> listed_layers(const ConfigFields& fields, const ModelConfig& config);

// `config`: with its sizes and layers. Throws bad_data for a value outside sane limits, sizes that
// do not fit each other, and settings that are not supported.
LinearAttentionConfig read_linear_attention(const ConfigFields& fields,
                                            const FamilyDefaults& family,
                                            const ModelConfig& config);

}  // namespace nvllm
