// GLM-4 (GLM Team 2024): half of each head is rotated, in pairs of neighbours. GLM-4-0414 has
// another norm behind each layer. GLM-4.5 (2025) rotates halves, and routes as DeepSeek V3 does.
// The text of GLM-4.1V and of GLM-4.5V and 4.6V is that of the latter two.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr FamilyDefaults glm_config(const char* model_type) {
    return {.model_type = model_type,
            .num_kv_heads = 2,
            .head_dim = 128,
            .max_positions = 131072,
            .epsilon = 1.5625e-7,
            .attention_bias = true,
            .output_bias_key = nullptr,
            .partial_rotary = 0.5,
            .own_keys = "attention_bias partial_rotary_factor"};
}

constexpr std::array<FamilyDefaults, 1> kGlmConfigs = {glm_config("glm")};
// Of models with pictures: positions of several axes, which are one for text.
constexpr FamilyDefaults glm4v_config() {
    FamilyDefaults config = glm_config("glm4v_text");
    config.head_dim = 0;
    config.max_positions = 32768;
    config.epsilon = 1e-5;
    config.attention_bias_key = nullptr;
    config.partial_rotary = 1.0;
    config.has_mrope = true;
    config.is_multi_part = true;
    config.own_keys = "partial_rotary_factor";
    return config;
}

constexpr std::array<FamilyDefaults, 2> kGlm4Configs = {glm_config("glm4"), glm4v_config()};

#define NVLLM_GLM_MOE_KEYS                                                                 \
    "attention_bias num_local_experts n_routed_experts num_experts_per_tok "               \
    "moe_intermediate_size norm_topk_prob n_shared_experts routed_scaling_factor n_group " \
    "topk_group first_k_dense_replace partial_rotary_factor"

constexpr FamilyDefaults glm4_moe_config() {
    FamilyDefaults config = {.model_type = "glm4_moe",
                             .num_kv_heads = 8,
                             .max_positions = 131072,
                             .epsilon = 1e-5,
                             .output_bias_key = nullptr,
                             .normalizes_experts = true,
                             .num_experts = 128,
                             .experts_per_token = 8,
                             .num_shared_experts = 1,
                             .first_dense_layers = 1,
                             .partial_rotary = 0.5};
    config.own_keys = NVLLM_GLM_MOE_KEYS " use_qk_norm";
    config.idle_keys = "num_nextn_predict_layers num_mtp_layers";
    return config;
}

constexpr FamilyDefaults glm4v_moe_config() {
    FamilyDefaults config = glm4_moe_config();
    config.model_type = "glm4v_moe_text";
    config.max_positions = 65536;
    config.attention_bias = true;
    config.expert_size = 1408;
    config.has_mrope = true;
    config.is_multi_part = true;
    config.own_keys = NVLLM_GLM_MOE_KEYS;
    return config;
}

constexpr std::array<FamilyDefaults, 2> kGlm4MoeConfigs = {glm4_moe_config(), glm4v_moe_config()};

LlamaTraits glm_traits() {
    LlamaTraits traits;
    traits.mlp.gate_up = "gate_up_proj";
    traits.rope_pairs = ops::RopePairs::interleaved;
    return traits;
}

std::unique_ptr<Model> make_glm(const ModelConfig& config, WeightSource& source,
                                const ModelSettings& settings) {
    return make_llama_like(config, source, settings, glm_traits());
}

std::unique_ptr<Model> make_glm4(const ModelConfig& config, WeightSource& source,
                                 const ModelSettings& settings) {
    LlamaTraits traits = glm_traits();
    traits.norms = {"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm",
                    "post_mlp_layernorm"};
    return make_llama_like(config, source, settings, traits);
}

LlamaTraits glm4_moe_traits(const ModelConfig& config) {
    LlamaTraits traits = deepseek_expert_traits();
    if (config.query_key_norm) traits.query_key_norm = QueryKeyNorm::heads;
    return traits;
}

std::unique_ptr<Model> make_glm4_moe(const ModelConfig& config, WeightSource& source,
                                     const ModelSettings& settings) {
    return make_llama_like(config, source, settings, glm4_moe_traits(config));
}

}  // namespace

extern const FamilyRow kGlm = {"GlmForCausalLM", make_glm, kGlmConfigs};
extern const FamilyRow kGlm4 = {"Glm4ForCausalLM", make_glm4, kGlm4Configs};
extern const FamilyRow kGlm4Moe = {"Glm4MoeForCausalLM", make_glm4_moe, kGlm4MoeConfigs,
                                   is_behind_last_layer, glm4_moe_traits};

}  // namespace nvllm
