// Llama, and the body of the families that descend from it.
#pragma once

#include <memory>

#include "lib/model/families/decoder.h"
#include "lib/model/families/llama_blocks.h"

namespace nvllm {

std::unique_ptr<Model> make_llama_like(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings, const LlamaTraits& traits);

// Experts as DeepSeek V3 routes and stores them, beside one for all tokens.
LlamaTraits deepseek_expert_traits();

// Llama itself, and families whose differences are all in their config.
std::unique_ptr<Model> make_llama(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings);

}  // namespace nvllm
