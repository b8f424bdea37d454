// Attention within chunks, and queries that grow in layers without a rotation, out of config.json
// (Llama 4).
#pragma once

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {

// `config`: with its layers and which of them rotate. Throws bad_data for a value outside sane
// limits, and for chunks without a size.
void read_chunks(const ConfigFields& fields, ModelConfig& config);

}  // namespace nvllm
