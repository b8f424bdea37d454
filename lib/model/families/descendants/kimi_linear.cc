// Kimi Linear (Moonshot AI 2025): three of four layers have linear attention with a decay of each
// dimension, the others latent attention without a rotation; experts as DeepSeek V3 has them.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kKimiLinearConfigs = {
    {{.model_type = "kimi_linear",
      .max_positions = 1048576,
      .epsilon = 1e-5,
      .normalizes_experts = true,
      .num_experts = 256,
      .experts_per_token = 8,
      .expert_size = 1024,
      .num_shared_experts = 1,
      .first_dense_layers = 1,
      .expert_weight_scale = 2.446,
      .router_scores = "sigmoid",
      .choice_methods = "noaux_tc",
      .rotated = RotatedLayers::none,
      .state_layers = StateLayerKind::kimi_delta,
      .has_latent_attention = true,
      .renamed_keys = "model_max_length=max_position_embeddings moe_renormalize=norm_topk_prob "
                      "num_expert_group=n_group num_experts_per_token=num_experts_per_tok "
                      "num_shared_experts=n_shared_experts "
                      "moe_router_activation_func=scoring_func",
      .own_keys = "attention_bias q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim "
                  "qk_head_dim v_head_dim num_local_experts num_experts "
                  "num_experts_per_tok moe_intermediate_size norm_topk_prob n_shared_experts "
                  "routed_scaling_factor n_group topk_group first_k_dense_replace scoring_func "
                  "moe_layer_freq mlp_layer_types layer_types linear_attn_config linear_num_heads "
                  "linear_head_dim linear_conv_kernel_dim",
      .only_values = "mla_use_nope=true use_grouped_topk=true",
      // Of attention with a rotation, and of layers for drafts.
      .idle_keys = "head_dim rope_theta rope_scaling rope_parameters "
                   "num_nextn_predict_layers"}}};

std::unique_ptr<Model> make_kimi_linear(const ModelConfig& config, WeightSource& source,
                                        const ModelSettings& settings) {
    LlamaTraits traits = deepseek_expert_traits();
    traits.state_layer = "self_attn";
    // transformers stores dense MLPs below the name of sparse ones.
    traits.mlp.other_layer = "block_sparse_moe";
    traits.experts.layer = "block_sparse_moe";
    traits.experts.gate = "w1";
    traits.experts.up = "w3";
    traits.experts.down = "w2";
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kKimiLinear = {"KimiLinearForCausalLM", make_kimi_linear,
                                      kKimiLinearConfigs};

}  // namespace nvllm
