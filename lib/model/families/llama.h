// Llama, and the body of the families that descend from it.
#pragma once

#include <memory>

#include "lib/model/families/decoder.h"

namespace nvllm {

// In what a descendant differs from Llama beyond what its config says (sizes, biases, windows,
// rope, tying).
struct LlamaTraits {
    bool query_key_norm = false;  // RMS norm of each query and key head before the rotation
};

std::unique_ptr<Model> make_llama_like(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings, const LlamaTraits& traits);

// LlamaForCausalLM; MistralForCausalLM, which adds a window that the config states.
std::unique_ptr<Model> make_llama(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings);

}  // namespace nvllm
