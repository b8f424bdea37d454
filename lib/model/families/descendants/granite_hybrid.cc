// Granite 4 (IBM 2025): Mamba-2 in most layers and attention, mostly without RoPE, in the others;
// an MLP for all tokens in each, and experts beside it in the larger ones; multipliers as in
// Granite 3. Granite 3's models of experts (2024) have attention in all layers.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kGraniteHybridConfigs = {
    {{.model_type = "granitemoehybrid",
      .vocab_size = 32000,
      .num_heads = 32,
      .intermediate_size = 11008,
      .normalizes_experts = true,
      .num_experts = 8,
      .experts_per_token = 2,
      .shared_expert_width = 1024,
      .has_shared_mlp = true,
      .rotated = RotatedLayers::by_position_type,
      .attention_scale = 1.0,
      .state_layers = StateLayerKind::mamba2,
      .own_keys = "attention_bias embedding_multiplier logits_scaling residual_multiplier "
                  "attention_multiplier num_local_experts num_experts_per_tok "
                  "shared_intermediate_size position_embedding_type layer_types "
                  "mamba_n_heads mamba_n_groups mamba_d_state mamba_d_head mamba_d_conv "
                  "mamba_expand mamba_conv_bias mamba_proj_bias time_step_limit",
      // How prompts are cut while a state is computed, and what published files say of the class.
      .idle_keys = "mamba_chunk_size normalization_function init_method"}}};

constexpr FamilyDefaults granite_moe_config() {
    FamilyDefaults config = {.model_type = "granitemoe",
                             .normalizes_experts = true,
                             .num_experts = 8,
                             .experts_per_token = 2,
                             .attention_scale = 1.0};
    config.own_keys =
        "attention_bias embedding_multiplier logits_scaling residual_multiplier "
        "attention_multiplier num_local_experts num_experts_per_tok";
    return config;
}

constexpr FamilyDefaults granite_shared_config() {
    FamilyDefaults config = granite_moe_config();
    config.model_type = "granitemoeshared";
    config.has_shared_mlp = true;
    config.own_keys =
        "attention_bias embedding_multiplier logits_scaling residual_multiplier "
        "attention_multiplier num_local_experts num_experts_per_tok shared_intermediate_size";
    return config;
}

constexpr std::array<FamilyDefaults, 1> kGraniteMoeConfigs = {granite_moe_config()};
constexpr std::array<FamilyDefaults, 1> kGraniteSharedConfigs = {granite_shared_config()};

std::unique_ptr<Model> make_granite_hybrid(const ModelConfig& config, WeightSource& source,
                                           const ModelSettings& settings) {
    LlamaTraits traits;
    traits.state_layer = "mamba";
    traits.mlp = {"shared_mlp", "gate_proj", "up_proj", "output_linear", "input_linear"};
    traits.experts = {"block_sparse_moe", "gate_proj",           "up_proj",
                      "down_proj",        "input_linear.weight", "output_linear.weight"};
    traits.experts.router = "router.layer";
    traits.experts.has_own_mlp = true;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kGraniteMoe = {"GraniteMoeForCausalLM", make_granite_hybrid,
                                      kGraniteMoeConfigs};
extern const FamilyRow kGraniteShared = {"GraniteMoeSharedForCausalLM", make_granite_hybrid,
                                         kGraniteSharedConfigs};
extern const FamilyRow kGraniteHybrid = {"GraniteMoeHybridForCausalLM", make_granite_hybrid,
                                         kGraniteHybridConfigs};

}  // namespace nvllm
