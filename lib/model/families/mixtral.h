// Mixtral: Llama whose feed-forward layers are experts.
#pragma once

#include "lib/model/families/decoder.h"

namespace nvllm {

std::unique_ptr<Model> make_mixtral(const ModelConfig& config, WeightSource& source,
                                    const ModelSettings& settings);

}  // namespace nvllm
