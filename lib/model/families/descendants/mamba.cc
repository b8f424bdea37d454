// Mamba-2 alone (Dao and Gu 2024; Mamba-Codestral): each layer is a state behind a norm, without
// attention, MLP or positions. Bamba (IBM 2024) has attention in some layers and an MLP in each.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr MambaKeys kMamba2Keys = {.heads = "num_heads",
                                   .groups = "n_groups",
                                   .state_dim = "state_size",
                                   .head_dim = "head_dim",
                                   .taps = "conv_kernel",
                                   .conv_bias = "use_conv_bias",
                                   .in_bias = "use_bias",
                                   .out_bias = "use_bias",
                                   .expansion = "expand",
                                   .num_groups = 8,
                                   .state_size = 128,
                                   .head_size = 64};

constexpr std::array<FamilyDefaults, 1> kMamba2Configs = {
    {{.model_type = "mamba2",
      .max_positions = 1048576,  // states know no limit
      .epsilon = 1e-5,
      .epsilon_key = "layer_norm_epsilon",
      .rotated = RotatedLayers::none,
      .state_layers = StateLayerKind::mamba2,
      .mamba = kMamba2Keys,
      .has_only_states = true,
      .own_keys = "num_heads n_groups state_size conv_kernel use_conv_bias use_bias expand "
                  "time_step_limit",
      // How prompts are cut while a state is computed, how it is stored, and what weights began
      // with.
      .idle_keys = "chunk_size residual_in_fp32 rescale_prenorm_residual time_step_rank "
                   "time_step_min time_step_max time_step_floor time_step_init_scheme "
                   "time_step_scale intermediate_size use_mambapy "
                   "num_attention_heads"}}};

constexpr std::array<FamilyDefaults, 1> kBambaConfigs = {
    {{.model_type = "bamba",
      .num_kv_heads = 8,
      .max_positions = 262144,
      .epsilon = 1e-5,
      .partial_rotary = 0.5,
      .state_layers = StateLayerKind::mamba2,
      .own_keys = "attention_bias mlp_bias attn_layer_indices partial_rotary_factor mamba_n_heads "
                  "mamba_n_groups mamba_d_state mamba_d_head mamba_d_conv mamba_expand "
                  "mamba_conv_bias mamba_proj_bias time_step_limit",
      .idle_keys = "mamba_chunk_size num_logits_to_keep z_loss_coefficient"}}};

std::unique_ptr<Model> make_mamba2(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings) {
    LlamaTraits traits;
    traits.prefix = "backbone.";
    traits.embedding = "embeddings";
    traits.state_layer = "mixer";
    traits.norms = {"norm", nullptr, nullptr, nullptr};
    traits.final_norm = "norm_f";
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_bamba(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    LlamaTraits traits;
    traits.state_layer = "mamba";
    traits.mlp.layer = "feed_forward";
    traits.norms.before_mlp = "pre_ff_layernorm";
    traits.final_norm = "final_layernorm";
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kMamba2 = {"Mamba2ForCausalLM", make_mamba2, kMamba2Configs};
extern const FamilyRow kBamba = {"BambaForCausalLM", make_bamba, kBambaConfigs};

}  // namespace nvllm
