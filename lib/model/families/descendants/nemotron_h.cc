// Nemotron-H and Nemotron 3 (Nvidia 2025): layers of one part each, Mamba-2, attention without
// positions, an MLP without a gate or experts of such MLPs, which may read smaller vectors.
#include <array>
#include <string>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr MambaKeys kMamba = {.heads = "mamba_num_heads",
                              .groups = "n_groups",
                              .state_dim = "ssm_state_size",
                              .head_dim = "mamba_head_dim",
                              .taps = "conv_kernel",
                              .conv_bias = "use_conv_bias",
                              .in_bias = "use_bias",
                              .out_bias = "use_bias",
                              .expansion = nullptr,
                              .activation = "mamba_hidden_act",
                              .least_step = "time_step_min",
                              .step_limits = nullptr,
                              .num_groups = 8,
                              .state_size = 128,
                              .head_size = 64,
                              .step = 1e-3};

constexpr std::array<FamilyDefaults, 1> kNemotronHConfigs = {
    {{.model_type = "nemotron_h",
      .vocab_size = 131072,
      .num_heads = 32,
      .num_kv_heads = 8,
      .head_dim = 128,
      .max_positions = 4096,
      .epsilon = 1e-5,
      .activation = "relu2",
      .activation_key = "mlp_hidden_act",
      .epsilon_key = "layer_norm_epsilon",
      .intermediate_size = 21504,
      .mlp_matrices = 2,
      .attention_bias_key = nullptr,
      .output_bias_key = nullptr,
      .normalizes_experts = true,
      .num_experts = 8,
      .experts_per_token = 2,
      .expert_size = 7688,
      .shared_expert_width = 7688,
      .rotated = RotatedLayers::none,
      .state_layers = StateLayerKind::mamba2,
      .mamba = kMamba,
      .lists_kinds = true,
      .renamed_keys = "mamba_n_groups=n_groups mamba_d_conv=conv_kernel "
                      "mamba_conv_bias=use_conv_bias mamba_dt_min=time_step_min",
      .own_keys = "layers_block_type layer_types hybrid_override_pattern mlp_hidden_act mlp_bias "
                  "mamba_num_heads n_groups ssm_state_size mamba_head_dim conv_kernel "
                  "use_conv_bias use_bias mamba_hidden_act time_step_min mamba_n_groups "
                  "mamba_d_conv mamba_conv_bias mamba_dt_min n_routed_experts num_local_experts "
                  "num_experts_per_tok moe_intermediate_size "
                  "moe_shared_expert_intermediate_size moe_latent_size norm_topk_prob n_group "
                  "topk_group routed_scaling_factor",
      // What the class passes over: biases of attention, sizes that others say, how prompts are cut
      // and states are stored, what the weights began with, layers for drafts.
      .idle_keys = "attention_bias mamba_proj_bias sliding_window expand mamba_expand chunk_size "
                   "mamba_chunk_size time_step_limit mamba_dt_limit time_step_max mamba_dt_max "
                   "time_step_floor mamba_dt_init_floor time_step_rank num_logits_to_keep "
                   "use_mamba_kernels mamba_ssm_cache_dtype n_shared_experts "
                   "moe_shared_expert_overlap num_nextn_predict_layers mtp_layers_block_type "
                   "mtp_hybrid_override_pattern residual_in_fp32 rescale_prenorm_residual "
                   "attention_head_dim rope_theta rope_scaling rope_parameters "
                   "partial_rotary_factor hidden_act rms_norm_eps norm_eps"}}};

std::unique_ptr<Model> make_nemotron_h(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings) {
    LlamaTraits traits;
    traits.embedding = "embeddings";
    traits.final_norm = "norm_f";
    traits.norms = {"norm", nullptr, "norm", nullptr};
    traits.attention = "mixer";
    traits.state_layer = "mixer";
    traits.mlp.layer = "mixer";
    traits.gated_mlp = false;
    traits.experts.layer = "mixer";
    traits.experts.in_stack = "experts.up_proj";
    traits.experts.choice_bias = "gate.e_score_correction_bias";
    traits.experts.shared = "shared_experts";
    traits.experts.latent_in = "fc1_latent_proj";
    traits.experts.latent_out = "fc2_latent_proj";
    traits.routing.scores = RouterScores::sigmoid;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kNemotronH = {"NemotronHForCausalLM", make_nemotron_h, kNemotronHConfigs,
                                     is_below_mtp};

}  // namespace nvllm
