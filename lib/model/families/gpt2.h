// GPT-2: layer norms, learned positions, one fused q, k, v matrix, plain MLP.
#pragma once

#include "lib/model/families/decoder.h"

namespace nvllm {

std::unique_ptr<Model> make_gpt2(const ModelConfig& config, WeightSource& source,
                                 const ModelSettings& settings);

}  // namespace nvllm
