// Blocks of Llama and of the families that descend from it, loaded by their names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/checkpoint/model_config.h"
#include "lib/model/families/model_settings.h"
#include "lib/model/families/stored_names.h"
#include "lib/model/layers/decoder_block.h"
#include "lib/model/layers/rotary.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

// What an MLP is called in a checkpoint.
struct MlpNames {
    const char* layer = "mlp";  // below the block
    const char* gate = "gate_proj";
    const char* up = "up_proj";
    const char* down = "down_proj";
    const char* gate_up = nullptr;      // one matrix instead of the first two; null: there is none
    const char* other_layer = nullptr;  // where a file has it instead of `layer`; null: nowhere
};

// What the experts of a sparse layer are called in a checkpoint.
struct ExpertNames {
    const char* layer;  // below the block: "mlp"; empty: they are the block's own
    const char* gate;
    const char* up;
    const char* down;
    // Where all experts are in two stacks.
    const char* in_stack = "experts.gate_up_proj";
    const char* down_stack = "experts.down_proj";
    const char* router = "gate";        // below the layer, as what follows; a linear
    bool has_router_bias = false;       // added to the logits
    const char* choice_bias = nullptr;  // a tensor, on the choice alone; null: none
    // Stacks are [experts, in, out]; empty: by their shapes.
    std::optional<bool> has_turned_stacks = {};
    const char* router_scale = nullptr;  // a tensor [hidden], on what the router reads, normalised
    const char* scales = nullptr;        // a tensor, on the weights of the experts
    const char* shared = nullptr;        // an MLP for all tokens; null: none
    const char* latent_in = nullptr;     // linears around the experts where those read vectors of
    const char* latent_out = nullptr;    // their own size
    bool has_own_mlp = false;            // the MLP for all tokens is the block's, not the layer's
    const char* shared_gate = nullptr;   // a linear [hidden] → [1]; null: none
};

// What a checkpoint calls matrices that it stores as one; null: each has a matrix of its own.
struct FusedNames {
    const char* query_key_value = nullptr;  // below attention: "qkv_proj"
    bool delta_net = false;                 // in_proj_qkvz and in_proj_ba, by key head
};

// What a checkpoint calls the norms of a block; null: there is none.
struct NormNames {
    const char* before_attention = "input_layernorm";
    const char* after_attention = nullptr;
    const char* before_mlp = "post_attention_layernorm";
    const char* after_mlp = nullptr;
};

// A norm before and another behind attention and MLP.
inline constexpr NormNames kNormsAroundLayers = {"input_layernorm", "post_attention_layernorm",
                                                 "pre_feedforward_layernorm",
                                                 "post_feedforward_layernorm"};
// One behind attention and MLP, and none before.
inline constexpr NormNames kNormsBehindLayers = {nullptr, "post_attention_layernorm", nullptr,
                                                 "post_feedforward_layernorm"};

// In what a descendant differs from Llama beyond what its config says (sizes, biases, windows,
// rope, tying, soft caps, multipliers).
struct LlamaTraits {
    OutputGate output_gate = OutputGate::none;        // of attention
    const char* attention_gate = "gate_proj";         // of gates behind values: below attention
    std::optional<QueryKeyNorm> query_key_norm = {};  // rms norms of queries and keys
    const char* query_norm = "q_norm";                // below attention
    const char* key_norm = "k_norm";
    ops::RopePairs rope_pairs = ops::RopePairs::halves;
    FusedNames fused = {};  // none
    MlpNames mlp = {};
    const char* embedding = "embed_tokens";   // below the prefix
    const char* attention = "self_attn";      // below the block
    const char* attention_output = "o_proj";  // below attention
    const char* state_layer = "linear_attn";  // below the block
    const char* final_norm = "norm";          // below the prefix
    NormNames norms = {};
    NormForm norm_form = {};
    bool is_parallel = false;       // DecoderBlock::is_parallel
    bool gated_mlp = true;          // false: down(f(up x))
    bool scaled_embedding = false;  // embeddings are multiplied by sqrt(hidden)
    std::string prefix = "model.";  // of all names but the head's
    ExpertNames experts = {"mlp", "gate_proj", "up_proj", "down_proj"};
    Routing routing = {};  // without the numbers of the config
    // Experts have biases, and a gate and an up for ops::clamped_swiglu(): each by itself, or those
    // of all in stacks with the rows of gate and up in pairs, [experts, in, out] or as MXFP4's
    // blocks and scales.
    bool clamped_experts = false;
    bool has_sinks = false;        // of attention
    bool has_layer_scale = false;  // DecoderBlock::out_scale
    // Norms of queries and keys are without weights, and where the config says so (use_qk_norm) of
    // layers that rotate alone.
    bool has_plain_query_key_norm = false;
    bool weighs_inputs = false;   // MoeMlp's
    bool has_value_norm = false;  // a norm of each head's values, without weights
};

// As Llama itself calls them.
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
    // One for the layers without a window, another where those with one have their own, and one
    // where queries grow in layers without a rotation.
    std::vector<Rotary> rotaries(const ModelSettings& settings) const;

  private:
    const ModelConfig& config_;
    WeightSource& source_;
    const LlamaTraits& traits_;
};

}  // namespace nvllm
