// Qwen3, dense or with experts as its config says: Llama with normalised queries and keys.
#pragma once

#include "lib/model/families/decoder.h"

namespace nvllm {

std::unique_ptr<Model> make_qwen3(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings);

}  // namespace nvllm
