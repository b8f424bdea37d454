// Llama, and the body of the families that descend from it.
#pragma once

#include <memory>
#include <string>

#include "lib/model/families/decoder.h"

namespace nvllm {

// What the experts of a sparse layer are called in a checkpoint.
struct ExpertNames {
    const char* layer;  // below the block: "mlp"
    const char* gate;
    const char* up;
    const char* down;
};

// What a checkpoint calls matrices that it stores as one; null: each has a matrix of its own.
struct FusedNames {
    const char* query_key_value = nullptr;  // below attention: "qkv_proj"
    const char* gate_up = nullptr;          // below an MLP: "gate_up_proj"
};

// In what a descendant differs from Llama beyond what its config says (sizes, biases, windows,
// rope, tying, soft caps).
struct LlamaTraits {
    bool query_key_norm = false;       // RMS norm of each query and key head before the rotation
    FusedNames fused = {};             // none
    bool norms_around_layers = false;  // a norm before and another behind attention and MLP
    float norm_offset = 0.0f;          // norm weights are stored less this
    bool scaled_embedding = false;     // embeddings are multiplied by sqrt(hidden)
    std::string prefix = "model.";     // of all names but the head's
    ExpertNames experts = {"mlp", "gate_proj", "up_proj", "down_proj"};
};

std::unique_ptr<Model> make_llama_like(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings, const LlamaTraits& traits);

// Llama itself, and families whose differences are all in their config.
std::unique_ptr<Model> make_llama(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings);

}  // namespace nvllm
