// Descendants of Llama whose differences are settings: SmolLM3 (Hugging Face 2025) without RoPE in
// every fourth layer, Granite 3 (IBM 2024) and HyperCLOVA X (Naver 2025) with multipliers,
// InternLM3 (2025), AFM (Arcee AI 2025) without gates in its MLPs, Mellum 2 (JetBrains 2026) with
// experts and windows, and ERNIE 4.5 (Baidu 2025), dense and of experts, and Helium (Kyutai 2025),
// which rotate pairs of neighbours.
#include <array>
#include <string>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kSmolLm3Configs = {
    {{.model_type = "smollm3",
      .num_kv_heads = 4,
      .max_positions = 32768,
      .theta = 2e6,
      .tied = true,
      .windows = Windows::switched_unrotated,
      .rotated = RotatedLayers::listed,
      .own_keys = "attention_bias mlp_bias use_sliding_window sliding_window layer_types "
                  "no_rope_layers no_rope_layer_interval"}}};

constexpr std::array<FamilyDefaults, 1> kGraniteConfigs = {
    {{.model_type = "granite",
      .attention_scale = 1.0,
      .own_keys = "attention_bias mlp_bias embedding_multiplier logits_scaling "
                  "residual_multiplier attention_multiplier"}}};

constexpr std::array<FamilyDefaults, 1> kInternLm3Configs = {
    {{.model_type = "internlm3",
      .num_kv_heads = 2,
      .head_dim = 128,
      .max_positions = 32768,
      .epsilon = 1e-5,
      .own_keys = "attention_bias mlp_bias"}}};

constexpr std::array<FamilyDefaults, 1> kErnieConfigs = {{{.model_type = "ernie4_5",
                                                           .num_kv_heads = 2,
                                                           .head_dim = 128,
                                                           .max_positions = 131072,
                                                           .epsilon = 1e-5,
                                                           .theta = 5e5,
                                                           .tied = true,
                                                           .attention_bias_key = "use_bias",
                                                           .output_bias_key = "use_bias",
                                                           .mlp_bias_key = "use_bias",
                                                           .own_keys = "use_bias"}}};

constexpr std::array<FamilyDefaults, 1> kHeliumConfigs = {
    {{.model_type = "helium",
      .num_kv_heads = 20,
      .head_dim = 128,
      .max_positions = 4096,
      .epsilon = 1e-8,
      .theta = 1e5,
      .output_bias_key = nullptr,
      .own_keys = "attention_bias mlp_bias"}}};

constexpr std::array<FamilyDefaults, 1> kErnieMoeConfigs = {
    {{.model_type = "ernie4_5_moe",
      .num_kv_heads = 4,
      .max_positions = 131072,
      .epsilon = 1e-5,
      .theta = 5e5,
      .tied = true,
      .attention_bias_key = "use_bias",
      .output_bias_key = "use_bias",
      .mlp_bias_key = "use_bias",
      .head_bias_key = "use_bias",
      .normalizes_experts = true,
      .num_experts = 64,
      .experts_per_token = 6,
      .expert_size = 1536,
      .num_shared_experts = 2,
      .first_dense_layers = 1,
      .renamed_keys = "moe_k=num_experts_per_tok moe_num_experts=num_experts "
                      "moe_num_shared_experts=n_shared_experts "
                      "moe_layer_start_index=first_k_dense_replace "
                      "moe_layer_interval=decoder_sparse_step",
      .own_keys = "use_bias num_local_experts num_experts num_experts_per_tok n_shared_experts "
                  "moe_intermediate_size first_k_dense_replace decoder_sparse_step "
                  "moe_layer_end_index",
      // Of training, and of layers for drafts.
      .idle_keys = "moe_capacity moe_use_aux_free moe_norm_min num_nextn_predict_layers "
                   "multi_token_pred_lambda"}}};

constexpr std::array<FamilyDefaults, 1> kArceeConfigs = {{{.model_type = "arcee",
                                                           .max_positions = 4096,
                                                           .epsilon = 1e-5,
                                                           .activation = "relu2",
                                                           .mlp_matrices = 2,
                                                           .own_keys = "attention_bias mlp_bias"}}};

constexpr std::array<FamilyDefaults, 1> kHyperClovaConfigs = {
    {{.model_type = "hyperclovax",
      .multiplies_logits = true,
      .own_keys = "attention_bias mlp_bias embedding_multiplier logits_scaling "
                  "residual_multiplier attention_multiplier use_post_norm"}}};

constexpr std::array<FamilyDefaults, 1> kMellumConfigs = {
    {{.model_type = "mellum",
      .num_kv_heads = 4,
      .head_dim = 128,
      .max_positions = 131072,
      .theta = 5e5,
      .normalizes_experts = true,
      .num_experts = 64,
      .experts_per_token = 8,
      .expert_size = 896,
      .windows = Windows::listed,
      .window = 1024,
      .sliding_theta = 1e4,
      .own_keys = "attention_bias sliding_window layer_types num_local_experts num_experts "
                  "num_experts_per_tok moe_intermediate_size norm_topk_prob mlp_layer_types",
      .idle_keys = "mtp_layer_types mtp_mlp_layer_types num_nextn_predict_layers"}}};

std::unique_ptr<Model> make_arcee(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    LlamaTraits traits;
    traits.gated_mlp = false;
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_hyperclova(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings) {
    LlamaTraits traits;
    if (config.has_post_norms) {
        traits.norms.after_attention = "post_norm1";
        traits.norms.after_mlp = "post_norm2";
    }
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_mellum(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings) {
    LlamaTraits traits;
    traits.query_key_norm = QueryKeyNorm::heads;
    return make_llama_like(config, source, settings, traits);
}

bool is_of_ernie_drafts(const std::string& tensor, const ModelConfig&) {
    return tensor.find(".mtp_") != std::string::npos;
}

// Helium, and ERNIE 4.5 with its experts.
std::unique_ptr<Model> make_interleaved(const ModelConfig& config, WeightSource& source,
                                        const ModelSettings& settings) {
    LlamaTraits traits;
    traits.rope_pairs = ops::RopePairs::interleaved;
    traits.experts.choice_bias = "moe_statics.e_score_correction_bias";
    traits.experts.shared = "shared_experts";
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kSmolLm3 = {"SmolLM3ForCausalLM", make_llama, kSmolLm3Configs};
extern const FamilyRow kGranite = {"GraniteForCausalLM", make_llama, kGraniteConfigs};
extern const FamilyRow kInternLm3 = {"InternLM3ForCausalLM", make_llama, kInternLm3Configs};
extern const FamilyRow kErnie = {"Ernie4_5ForCausalLM", make_interleaved, kErnieConfigs};
extern const FamilyRow kErnieMoe = {"Ernie4_5_MoeForCausalLM", make_interleaved, kErnieMoeConfigs,
                                    is_of_ernie_drafts};
extern const FamilyRow kArcee = {"ArceeForCausalLM", make_arcee, kArceeConfigs};
extern const FamilyRow kHyperClova = {"HyperCLOVAXForCausalLM", make_hyperclova,
                                      kHyperClovaConfigs};
extern const FamilyRow kMellum = {"MellumForCausalLM", make_mellum, kMellumConfigs, is_below_mtp};
extern const FamilyRow kHelium = {"HeliumForCausalLM", make_interleaved, kHeliumConfigs};

}  // namespace nvllm
