// Sizes of latent attention, as config.json has them.
#pragma once

#include <cstdint>

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {

// Throws bad_data that names the key of a size that is absent or beyond what heads may have.
LatentAttentionConfig read_latent_attention(const ConfigFields& fields,
                                            const FamilyDefaults& family, int64_t num_heads);

}  // namespace nvllm
