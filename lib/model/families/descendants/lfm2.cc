// LFM2 (Liquid AI 2025), dense and of experts: short convolutions between gates in most layers,
// attention in the others.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr FamilyDefaults base_config(std::string_view model_type) {
    FamilyDefaults config;
    config.model_type = model_type;
    config.vocab_size = 65536;
    config.num_heads = 32;
    config.num_kv_heads = 8;
    config.max_positions = 128000;
    config.epsilon = 1e-5;
    config.epsilon_key = "norm_eps";
    config.theta = 1e6;
    config.tied = true;
    config.state_layers = StateLayerKind::short_conv;
    config.mlp_bias_key = "mlp_bias";
    return config;
}

constexpr FamilyDefaults lfm2_config() {
    FamilyDefaults config = base_config("lfm2");
    config.intermediate_size = 12288;
    config.adjusts_intermediate_size = true;
    config.own_keys =
        "conv_L_cache conv_bias layer_types full_attn_idxs tie_embedding block_ff_dim "
        "block_multiple_of block_ffn_dim_multiplier block_auto_adjust_ff_dim";
    return config;
}

constexpr FamilyDefaults lfm2_moe_config() {
    FamilyDefaults config = base_config("lfm2_moe");
    config.intermediate_size = 7168;
    config.num_experts = 32;
    config.experts_per_token = 4;
    config.expert_size = 1792;
    config.normalizes_experts = true;
    config.first_dense_layers = 2;
    config.own_keys =
        "conv_L_cache conv_bias layer_types tie_embedding num_dense_layers num_experts "
        "num_experts_per_tok moe_intermediate_size norm_topk_prob use_expert_bias "
        "routed_scaling_factor";
    return config;
}

constexpr std::array<FamilyDefaults, 1> kLfm2Configs = {lfm2_config()};
constexpr std::array<FamilyDefaults, 1> kLfm2MoeConfigs = {lfm2_moe_config()};

std::unique_ptr<Model> make_lfm2(const ModelConfig& config, WeightSource& source,
                                 const ModelSettings& settings) {
    LlamaTraits traits;
    traits.norms = {"operator_norm", nullptr, "ffn_norm", nullptr};
    traits.query_key_norm = QueryKeyNorm::heads;
    traits.query_norm = "q_layernorm";
    traits.key_norm = "k_layernorm";
    traits.attention_output = "out_proj";
    traits.final_norm = "embedding_norm";
    traits.state_layer = "conv";
    traits.mlp = {"feed_forward", "w1", "w3", "w2"};
    traits.experts = {"feed_forward", "w1", "w3", "w2"};
    traits.experts.choice_bias = "expert_bias";
    traits.routing.scores = RouterScores::sigmoid;
    traits.routing.sum_epsilon = 1e-6f;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kLfm2 = {"Lfm2ForCausalLM", make_lfm2, kLfm2Configs};
extern const FamilyRow kLfm2Moe = {"Lfm2MoeForCausalLM", make_lfm2, kLfm2MoeConfigs};

}  // namespace nvllm
