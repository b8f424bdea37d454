// DeepSeek V2 (DeepSeek-AI 2024), V3 with R1 (2024, 2025) and Kimi K2 (Moonshot AI 2025), and
// GLM-4.7-Flash (2026): latent attention, and experts beside one that all tokens go to. Youtu-LLM
// (Tencent 2025) has dense MLPs. Layers
// behind the last, which propose tokens, are read by lib/model/drafts/mtp.h alone.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

#define NVLLM_LATENT_KEYS                                                                    \
    "attention_bias q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim qk_head_dim " \
    "v_head_dim num_local_experts num_experts n_routed_experts num_experts_per_tok "         \
    "moe_intermediate_size norm_topk_prob n_shared_experts routed_scaling_factor n_group "   \
    "topk_group first_k_dense_replace topk_method scoring_func moe_layer_freq"

// What files say of training and of the machines that the model was made on.
constexpr const char* kLatentIdleKeys =
    "aux_loss_alpha seq_aux ep_size num_nextn_predict_layers num_mtp_layers";

constexpr FamilyDefaults kLatentBase = {.model_type = {},
                                        .has_latent_attention = true,
                                        .own_keys = NVLLM_LATENT_KEYS " rope_interleave",
                                        .idle_keys = kLatentIdleKeys};

constexpr FamilyDefaults deepseek_v2_config() {
    FamilyDefaults config = kLatentBase;
    config.model_type = "deepseek_v2";
    config.num_experts = 64;
    config.num_shared_experts = 2;
    config.expert_size = 1407;
    config.router_scores = "softmax";
    config.choice_methods = "greedy group_limited_greedy";
    config.own_keys = NVLLM_LATENT_KEYS " mlp_bias";
    return config;
}

constexpr FamilyDefaults deepseek_v3_config() {
    FamilyDefaults config = kLatentBase;
    config.model_type = "deepseek_v3";
    config.other_types = "kimi_k2";
    config.max_positions = 4096;
    config.normalizes_experts = true;
    config.num_experts = 256;
    config.experts_per_token = 8;
    config.expert_size = 2048;
    config.num_shared_experts = 1;
    config.first_dense_layers = 3;
    config.expert_weight_scale = 2.5;
    config.expert_groups = 8;
    config.expert_groups_per_token = 4;
    config.router_scores = "sigmoid";
    config.choice_methods = "noaux_tc";
    return config;
}

constexpr FamilyDefaults glm4_moe_lite_config() {
    FamilyDefaults config = deepseek_v3_config();
    config.model_type = "glm4_moe_lite";
    config.other_types = {};
    config.max_positions = 202752;
    config.epsilon = 1e-5;
    config.num_experts = 64;
    config.experts_per_token = 4;
    config.expert_size = 1536;
    config.first_dense_layers = 1;
    config.expert_weight_scale = 1.8;
    config.expert_groups = 1;
    config.expert_groups_per_token = 1;
    config.own_keys = NVLLM_LATENT_KEYS " rope_interleave partial_rotary_factor mlp_layer_types";
    return config;
}

constexpr FamilyDefaults youtu_config() {
    FamilyDefaults config = kLatentBase;
    config.model_type = "youtu";
    config.max_positions = 131072;
    config.tied = true;
    config.own_keys = NVLLM_LATENT_KEYS " rope_interleave mlp_bias";
    config.idle_keys = "embedding_initializer_range";
    return config;
}

constexpr std::array<FamilyDefaults, 1> kYoutuConfigs = {youtu_config()};
constexpr std::array<FamilyDefaults, 1> kV2Configs = {deepseek_v2_config()};
constexpr std::array<FamilyDefaults, 1> kV3Configs = {deepseek_v3_config()};
constexpr std::array<FamilyDefaults, 1> kGlm4MoeLiteConfigs = {glm4_moe_lite_config()};

std::unique_ptr<Model> make_deepseek_v2(const ModelConfig& config, WeightSource& source,
                                        const ModelSettings& settings) {
    LlamaTraits traits;
    traits.experts.shared = "shared_experts";
    return make_llama_like(config, source, settings, traits);
}

LlamaTraits deepseek_v3_traits(const ModelConfig&) { return deepseek_expert_traits(); }

std::unique_ptr<Model> make_deepseek_v3(const ModelConfig& config, WeightSource& source,
                                        const ModelSettings& settings) {
    return make_llama_like(config, source, settings, deepseek_v3_traits(config));
}

}  // namespace

LlamaTraits deepseek_expert_traits() {
    LlamaTraits traits;
    traits.experts.shared = "shared_experts";
    traits.experts.choice_bias = "gate.e_score_correction_bias";
    traits.routing.scores = RouterScores::sigmoid;
    return traits;
}

extern const FamilyRow kDeepSeekV2 = {"DeepseekV2ForCausalLM", make_deepseek_v2, kV2Configs};
extern const FamilyRow kYoutu = {"YoutuForCausalLM", make_llama, kYoutuConfigs};
extern const FamilyRow kDeepSeekV3 = {"DeepseekV3ForCausalLM", make_deepseek_v3, kV3Configs,
                                      is_behind_last_layer, deepseek_v3_traits};
extern const FamilyRow kGlm4MoeLite = {"Glm4MoeLiteForCausalLM", make_deepseek_v3,
                                       kGlm4MoeLiteConfigs, is_behind_last_layer,
                                       deepseek_v3_traits};

}  // namespace nvllm
