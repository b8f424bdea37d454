// Settings by which the layers of one model differ beyond their windows: sizes of heads, values
// that are keys, keys and values that several share, vectors of their own for each token (Gemma 4).
#pragma once

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {

// `config`: with its sizes, layers and windows. Throws bad_data for a value outside sane limits,
// and for layers that share what no layer of their kind has.
void read_layer_differences(const ConfigFields& fields, ModelConfig& config);

}  // namespace nvllm
