// Falcon-H1 (TII 2025): in each layer Mamba-2 and attention side by side behind one norm, and an
// MLP; multipliers on what most matrices read or give.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr MambaKeys kMamba = {.out_bias = "projectors_bias",
                              .width = "mamba_d_ssm",
                              .has_norm = "mamba_rms_norm",
                              .norm_before_gate = "mamba_norm_before_gate",
                              .total_width = 1024,
                              .norm = false,
                              .norm_first = true};

constexpr std::array<FamilyDefaults, 1> kFalconH1Configs = {
    {{.model_type = "falcon_h1",
      .vocab_size = 128000,
      .num_heads = 32,
      .num_kv_heads = 8,
      .max_positions = 8192,
      .epsilon = 1e-5,
      .intermediate_size = 14336,
      .state_layers = StateLayerKind::mamba2,
      .mamba = kMamba,
      .attention_beside_states = true,
      .own_keys = "attention_bias mlp_bias projectors_bias embedding_multiplier "
                  "lm_head_multiplier attention_in_multiplier attention_out_multiplier "
                  "key_multiplier mlp_multipliers ssm_in_multiplier ssm_out_multiplier "
                  "ssm_multipliers mamba_d_ssm mamba_n_heads mamba_n_groups mamba_d_state "
                  "mamba_d_head mamba_d_conv mamba_expand mamba_conv_bias mamba_proj_bias "
                  "mamba_rms_norm mamba_norm_before_gate time_step_limit",
      // How prompts are cut while a state is computed, which logits are made, what the weights
      // began with, and what published files say of the class.
      .idle_keys = "mamba_chunk_size num_logits_to_keep time_step_min time_step_max "
                   "time_step_floor time_step_rank mamba_use_mlp mlp_expansion_factor "
                   "attn_layer_indices attn_rotary_emb layer_types layers_block_type"}}};

std::unique_ptr<Model> make_falcon_h1(const ModelConfig& config, WeightSource& source,
                                      const ModelSettings& settings) {
    LlamaTraits traits;
    traits.state_layer = "mamba";
    traits.mlp.layer = "feed_forward";
    traits.norms.before_mlp = "pre_ff_layernorm";
    traits.final_norm = "final_layernorm";
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kFalconH1 = {"FalconH1ForCausalLM", make_falcon_h1, kFalconH1Configs};

}  // namespace nvllm
