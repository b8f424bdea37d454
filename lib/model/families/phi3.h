// Phi-3 and Phi-3.5: Llama with fused projections.
#pragma once

#include "lib/model/families/decoder.h"

namespace nvllm {

std::unique_ptr<Model> make_phi3(const ModelConfig& config, WeightSource& source,
                                 const ModelSettings& settings);

}  // namespace nvllm
