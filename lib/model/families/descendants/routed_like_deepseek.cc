// Attention of other families, and experts as DeepSeek V3 routes and stores them: dots.llm1
// (Rednote 2025) with Qwen3's attention, Solar Open (Upstage 2026) with Llama's, K-EXAONE (LG 2026)
// with EXAONE 4's, Hunyuan 3 (Tencent 2026) with norms of queries and keys, and Trinity (Arcee AI
// 2025) with gates on what attention gives. Layers for drafts are not read.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

#define NVLLM_ROUTED_KEYS                                                                  \
    "attention_bias num_local_experts num_experts n_routed_experts num_experts_per_tok "   \
    "moe_intermediate_size norm_topk_prob n_shared_experts routed_scaling_factor n_group " \
    "topk_group first_k_dense_replace mlp_layer_types"

constexpr std::array<FamilyDefaults, 1> kDotsConfigs = {
    {{.model_type = "dots1",
      .num_kv_heads = 32,
      .router_scores = "sigmoid",
      .choice_methods = "noaux_tc",
      .windows = Windows::above,
      .window = 4096,
      .max_window_layers = 62,
      .own_keys = NVLLM_ROUTED_KEYS
      " sliding_window max_window_layers layer_types scoring_func topk_method moe_layer_freq",
      .idle_keys = "num_nextn_predict_layers ep_size aux_loss_alpha seq_aux use_sliding_window"}}};

constexpr std::array<FamilyDefaults, 1> kSolarOpenConfigs = {
    {{.model_type = "solar_open",
      .num_kv_heads = 8,
      .head_dim = 128,
      .max_positions = 131072,
      .epsilon = 1e-5,
      .theta = 1e6,
      .intermediate_size = 1280,  // no layer has it
      .output_bias_key = nullptr,
      .normalizes_experts = true,
      .num_experts = 128,
      .experts_per_token = 8,
      .expert_size = 1280,
      .num_shared_experts = 1,
      .own_keys = NVLLM_ROUTED_KEYS " partial_rotary_factor",
      .only_values = "use_qk_norm=false first_k_dense_replace=0"}}};

constexpr std::array<FamilyDefaults, 1> kExaoneMoeConfigs = {
    {{.model_type = "exaone_moe",
      .num_kv_heads = 32,
      .epsilon = 1e-5,
      .output_bias_key = nullptr,
      .normalizes_experts = true,
      .num_experts = 64,
      .experts_per_token = 8,
      .expert_size = 1024,
      .num_shared_experts = 1,
      .first_dense_layers = 1,
      .expert_weight_scale = 2.5,
      .windows = Windows::all_but_nth,
      .window = 4096,
      .window_pattern = 4,
      .rotated = RotatedLayers::windowed_if_windows,
      .renamed_keys = "num_shared_experts=n_shared_experts",
      .own_keys = NVLLM_ROUTED_KEYS " sliding_window sliding_window_pattern layer_types",
      .idle_keys = "num_nextn_predict_layers is_moe_layer first_last_k_dense_replace"}}};

constexpr std::array<FamilyDefaults, 1> kHunYuan3Configs = {
    {{.model_type = "hy_v3",
      .num_kv_heads = 8,
      .head_dim = 128,
      .max_positions = 131072,
      .epsilon = 1e-5,
      .theta = 11158840.0,
      .normalizes_experts = true,
      .num_experts = 192,
      .experts_per_token = 8,
      .expert_size = 1536,
      .num_shared_experts = 1,
      .first_dense_layers = 1,
      .expert_weight_scale = 2.826,
      .renamed_keys = "num_shared_experts=n_shared_experts "
                      "router_scaling_factor=routed_scaling_factor",
      .own_keys = NVLLM_ROUTED_KEYS " mlp_bias router_scaling_factor",
      // In which type sums of experts are made, and layers for drafts.
      .idle_keys = "enable_moe_fp32_combine num_nextn_predict_layers"}}};

constexpr std::array<FamilyDefaults, 1> kTrinityConfigs = {
    {{.model_type = "afmoe",
      .head_dim = 128,
      .max_positions = 16384,
      .epsilon = 1e-5,
      .normalizes_experts = true,
      .num_experts = 64,
      .experts_per_token = 6,
      .expert_size = 1408,
      .num_shared_experts = 2,
      .first_dense_layers = 1,
      .router_scores = "sigmoid",
      .choice_methods = "noaux_tc",
      .windows = Windows::all_but_nth,
      .window = 1024,
      .window_pattern = 4,
      .rotated = RotatedLayers::windowed,
      .renamed_keys = "num_shared_experts=n_shared_experts route_scale=routed_scaling_factor "
                      "num_dense_layers=first_k_dense_replace score_func=scoring_func "
                      "global_attn_every_n_layers=sliding_window_pattern",
      .own_keys = NVLLM_ROUTED_KEYS " sliding_window sliding_window_pattern layer_types "
                                    "mup_enabled scoring_func num_dense_layers "
                                    "global_attn_every_n_layers",
      .only_values = "route_norm=true num_expert_groups=1 num_limited_groups=1",
      // Of training.
      .idle_keys = "load_balance_coeff use_grouped_mm"}}};

LlamaTraits routed_traits() {
    LlamaTraits traits = deepseek_expert_traits();
    traits.query_key_norm = QueryKeyNorm::heads;
    return traits;
}

std::unique_ptr<Model> make_dots(const ModelConfig& config, WeightSource& source,
                                 const ModelSettings& settings) {
    return make_llama_like(config, source, settings, routed_traits());
}

std::unique_ptr<Model> make_solar_open(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings) {
    return make_llama_like(config, source, settings, deepseek_expert_traits());
}

std::unique_ptr<Model> make_exaone_moe(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings) {
    LlamaTraits traits = routed_traits();
    traits.experts.choice_bias = "e_score_correction_bias";
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_hunyuan3(const ModelConfig& config, WeightSource& source,
                                     const ModelSettings& settings) {
    LlamaTraits traits = routed_traits();
    traits.experts.router = "router.gate";
    traits.experts.choice_bias = "expert_bias";
    traits.experts.shared = "shared_mlp";
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_trinity(const ModelConfig& config, WeightSource& source,
                                    const ModelSettings& settings) {
    LlamaTraits traits = routed_traits();
    traits.output_gate = OutputGate::behind_values;
    traits.norms = {"input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm",
                    "post_mlp_layernorm"};
    traits.scaled_embedding = config.scales_embedding;
    traits.experts.router = "router.gate";
    traits.experts.choice_bias = "expert_bias";
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kDots = {"Dots1ForCausalLM", make_dots, kDotsConfigs};
extern const FamilyRow kSolarOpen = {"SolarOpenForCausalLM", make_solar_open, kSolarOpenConfigs,
                                     is_behind_last_layer};
extern const FamilyRow kExaoneMoe = {"ExaoneMoeForCausalLM", make_exaone_moe, kExaoneMoeConfigs,
                                     is_below_mtp};
extern const FamilyRow kTrinity = {"AfmoeForCausalLM", make_trinity, kTrinityConfigs};
extern const FamilyRow kHunYuan3 = {"HYV3ForCausalLM", make_hunyuan3, kHunYuan3Configs,
                                    is_behind_last_layer};

}  // namespace nvllm
