// GLM-4 (GLM Team 2024): half of each head is rotated, in pairs of neighbours. GLM-4-0414 has
// another norm behind each layer. GLM-4.5 (2025) rotates halves, and routes as DeepSeek V3 does.
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
constexpr std::array<FamilyDefaults, 1> kGlm4Configs = {glm_config("glm4")};

constexpr std::array<FamilyDefaults, 1> kGlm4MoeConfigs = {
    {{.model_type = "glm4_moe",
      .num_kv_heads = 8,
      .max_positions = 131072,
      .epsilon = 1e-5,
      .output_bias_key = nullptr,
      .normalizes_experts = true,
      .num_experts = 128,
      .experts_per_token = 8,
      .num_shared_experts = 1,
      .first_dense_layers = 1,
      .partial_rotary = 0.5,
      .own_keys = "attention_bias num_local_experts n_routed_experts num_experts_per_tok "
                  "moe_intermediate_size norm_topk_prob n_shared_experts routed_scaling_factor "
                  "n_group topk_group first_k_dense_replace use_qk_norm partial_rotary_factor",
      .idle_keys = "num_nextn_predict_layers num_mtp_layers"}}};

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
    LlamaTraits traits;
    if (config.query_key_norm) traits.query_key_norm = QueryKeyNorm::heads;
    traits.experts.choice_bias = "gate.e_score_correction_bias";
    traits.experts.shared = "shared_experts";
    traits.routing.scores = RouterScores::sigmoid;
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
