// Blocks of Llama and of the families that descend from it, loaded by their names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/checkpoint/model_config.h"
#include "lib/model/families/model_settings.h"
#include "lib/model/families/stored_names.h"
#include "lib/model/layers/decoder_block.h"
#include "lib/model/layers/rotary.h"
#include "lib/model/weights/weight_source.h"

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
    bool linear_attention = false;          // in_proj_qkvz and in_proj_ba, by key head
};

// In what a descendant differs from Llama beyond what its config says (sizes, biases, windows,
// rope, tying, soft caps).
struct LlamaTraits {
    bool attention_gate = false;       // Attention::has_output_gate
    bool query_key_norm = false;       // RMS norm of each query and key head before the rotation
    FusedNames fused = {};             // none
    bool norms_around_layers = false;  // a norm before and another behind attention and MLP
    float norm_offset = 0.0f;          // norm weights are stored less this
    bool scaled_embedding = false;     // embeddings are multiplied by sqrt(hidden)
    std::string prefix = "model.";     // of all names but the head's
    ExpertNames experts = {"mlp", "gate_proj", "up_proj", "down_proj"};
};

inline constexpr BodyMarks kLlamaMarks = {"layers.0.input_layernorm.weight", "embed_tokens.weight",
                                          "model."};

// Where blocks are loaded from; what it refers to must outlive it. All functions throw bad_data
// that names a tensor.
class LlamaBlocks {
  public:
    LlamaBlocks(const ModelConfig& config, WeightSource& source, const LlamaTraits& traits)
        : config_(config), source_(source), traits_(traits) {}

    // Block `index` of the config, whose tensors begin with `name`: "model.layers.3".
    DecoderBlock block(const std::string& name, size_t index) const;
    // The same without what stands before its attention: a norm, and channel flows through it. The
    // attention reads x [tokens, in].
    DecoderBlock block_behind(const std::string& name, size_t index, int64_t in) const;

    Norm norm(const std::string& name, int64_t size) const;
    // One for the layers without a window, and another where those with one have their own.
    std::vector<Rotary> rotaries(const ModelSettings& settings) const;

  private:
    const ModelConfig& config_;
    WeightSource& source_;
    const LlamaTraits& traits_;
};

}  // namespace nvllm
