// Settings of layers with linear attention out of config.json: those of Qwen3-Next and Qwen3.5
// (linear_key_head_dim, ...), of Kimi Linear (linear_attn_config), of Mamba-2 (mamba_d_state, ...),
// and of LFM2 (conv_L_cache).
#pragma once

#include <string>
#include <vector>

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/family_defaults.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {

// One answer a layer: whether the type that the file lists has a state. Empty: it lists none.
std::vector<bool> listed_layers(const ConfigFields& fields, const ModelConfig& config);

// The same by a list of those layers without a state; absent or null: `absent` is of all.
std::vector<bool> layers_not_listed(const ConfigFields& fields, const char* key, bool absent,
                                    const ModelConfig& config);

// `config`: with its sizes and layers. Throws bad_data for a value outside sane limits, sizes that
// do not fit each other, and settings that are not supported. Keys of an object of their own that
// are not read are added to `unused`.
LinearAttentionConfig read_linear_attention(const ConfigFields& fields,
                                            const FamilyDefaults& family, const ModelConfig& config,
                                            std::vector<std::string>& unused);

}  // namespace nvllm
