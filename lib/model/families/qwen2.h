// Qwen2 and Qwen2.5: Llama with biases on queries, keys and values.
#pragma once

#include "lib/model/families/decoder.h"

namespace nvllm {

std::unique_ptr<Model> make_qwen2(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings);

}  // namespace nvllm
