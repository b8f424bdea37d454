// Qwen3-Next (Qwen Team 2025) and Qwen3.5 (2026), dense and of experts: most layers have linear
// attention by the gated delta rule, the others attention with a gate on what it gives. Norm
// weights are stored less 1, but for those behind linear attention. A layer for drafts beside the
// model's own is read by lib/model/drafts/mtp.h alone.
#include <array>
#include <string>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr FamilyDefaults kBase = {.model_type = {},
                                  .max_positions = 32768,
                                  .partial_rotary = 0.25,
                                  .state_layers = StateLayerKind::delta_net};

#define NVLLM_LINEAR_KEYS                                                                    \
    "attention_bias layer_types full_attention_interval partial_rotary_factor "              \
    "linear_conv_kernel_dim linear_key_head_dim linear_value_head_dim linear_num_key_heads " \
    "linear_num_value_heads"
#define NVLLM_EXPERT_KEYS                                                       \
    " num_local_experts num_experts num_experts_per_tok moe_intermediate_size " \
    "shared_expert_intermediate_size"

constexpr FamilyDefaults qwen3_next_config() {
    FamilyDefaults config = kBase;
    config.model_type = "qwen3_next";
    config.num_kv_heads = 2;
    config.head_dim = 256;
    config.intermediate_size = 5632;
    config.normalizes_experts = true;
    config.num_experts = 512;
    config.experts_per_token = 10;
    config.expert_size = 512;
    config.shared_expert_width = 512;
    config.own_keys =
        NVLLM_LINEAR_KEYS NVLLM_EXPERT_KEYS " norm_topk_prob decoder_sparse_step mlp_only_layers";
    return config;
}

constexpr FamilyDefaults qwen3_5_config() {
    FamilyDefaults config = kBase;
    config.model_type = "qwen3_5_text";
    config.other_types = "qwen3_5";
    config.num_kv_heads = 4;
    config.head_dim = 256;
    config.has_mrope = true;
    config.is_multi_part = true;
    config.own_keys = NVLLM_LINEAR_KEYS;
    // What they say of the class, of the type of states, and of layers for drafts.
    config.idle_keys =
        "attn_output_gate mamba_ssm_dtype mlp_only_layers mtp_num_hidden_layers "
        "mtp_use_dedicated_embeddings";
    return config;
}

constexpr FamilyDefaults qwen3_5_moe_config() {
    FamilyDefaults config = qwen3_5_config();
    config.model_type = "qwen3_5_moe_text";
    config.other_types = "qwen3_5_moe";
    config.num_kv_heads = 2;
    config.normalizes_experts = true;
    config.num_experts = 256;
    config.experts_per_token = 8;
    config.expert_size = 512;
    config.shared_expert_width = 512;
    config.intermediate_size = 512;  // no layer has it
    config.own_keys = NVLLM_LINEAR_KEYS NVLLM_EXPERT_KEYS;
    return config;
}

constexpr std::array<FamilyDefaults, 1> kQwen3NextConfigs = {qwen3_next_config()};
constexpr std::array<FamilyDefaults, 1> kQwen35Configs = {qwen3_5_config()};
constexpr std::array<FamilyDefaults, 1> kQwen35MoeConfigs = {qwen3_5_moe_config()};

LlamaTraits hybrid_traits(const ModelConfig&) {
    LlamaTraits traits;
    traits.norm_form.weight_offset = 1.0f;
    traits.query_key_norm = QueryKeyNorm::heads;
    traits.output_gate = OutputGate::behind_queries;
    traits.experts.shared = "shared_expert";
    traits.experts.shared_gate = "shared_expert_gate";
    return traits;
}

std::unique_ptr<Model> make_qwen3_5(const ModelConfig& config, WeightSource& source,
                                    const ModelSettings& settings) {
    return make_llama_like(config, source, settings, hybrid_traits(config));
}

std::unique_ptr<Model> make_qwen3_next(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings) {
    LlamaTraits traits = hybrid_traits(config);
    traits.fused.delta_net = true;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kQwen3Next = {"Qwen3NextForCausalLM", make_qwen3_next, kQwen3NextConfigs,
                                     is_below_mtp, hybrid_traits};
extern const FamilyRow kQwen35 = {"Qwen3_5ForCausalLM", make_qwen3_5, kQwen35Configs, is_below_mtp,
                                  hybrid_traits};
extern const FamilyRow kQwen35Moe = {"Qwen3_5MoeForCausalLM", make_qwen3_5, kQwen35MoeConfigs,
                                     is_below_mtp, hybrid_traits};

}  // namespace nvllm
