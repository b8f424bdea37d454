// Gemma (Gemma Team 2024, 2025): norm weights are stored less 1, embeddings are scaled. Gemma 2
// puts a norm behind each layer too, caps logits and alternates windows, and VaultGemma (Google
// 2025) is Gemma 2 without those norms; Gemma 3 normalises queries and keys instead of capping, and
// rotates windowed layers with a theta of their own. Windows, caps and thetas are in the config.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::string_view kGemma3Keys =
    "attention_bias query_pre_attn_scalar final_logit_softcapping sliding_window layer_types "
    "sliding_window_pattern rope_local_base_freq use_bidirectional_attention";

constexpr std::array<FamilyDefaults, 1> kGemmaConfigs = {
    {{.model_type = "gemma",
      .num_kv_heads = 16,
      .head_dim = 256,
      .max_positions = 8192,
      .activation = "gelu_pytorch_tanh",
      // The first Gemma was published as "gelu" and computed with the approximation by tanh.
      .misnamed_activation = "gelu",
      .tied = true,
      .own_keys = "attention_bias use_bidirectional_attention"}}};

constexpr FamilyDefaults gemma2_config(const char* model_type) {
    return {.model_type = model_type,
            .num_kv_heads = 4,
            .head_dim = 256,
            .max_positions = 8192,
            .activation = "gelu_pytorch_tanh",
            .activation_key = "hidden_activation",
            .tied = true,
            .query_scalar = 256.0,
            .attention_soft_cap = 50.0,
            .logit_soft_cap = 30.0,
            .windows = Windows::alternating,
            .window = 4096,
            .own_keys =
                "attention_bias query_pre_attn_scalar attn_logit_softcapping "
                "final_logit_softcapping sliding_window layer_types use_bidirectional_attention"};
}

constexpr std::array<FamilyDefaults, 1> kGemma2Configs = {gemma2_config("gemma2")};
constexpr std::array<FamilyDefaults, 1> kVaultGemmaConfigs = {gemma2_config("vaultgemma")};

constexpr std::array<FamilyDefaults, 2> kGemma3Configs = {{{.model_type = "gemma3_text",
                                                            .vocab_size = 262208,
                                                            .num_heads = 8,
                                                            .num_kv_heads = 4,
                                                            .head_dim = 256,
                                                            .max_positions = 131072,
                                                            .theta = 1e6,
                                                            .activation = "gelu_pytorch_tanh",
                                                            .activation_key = "hidden_activation",
                                                            .tied = true,
                                                            .query_scalar = 256.0,
                                                            .windows = Windows::all_but_nth,
                                                            .window = 4096,
                                                            .sliding_theta = 10000.0,
                                                            .may_be_encoder = true,
                                                            .own_keys = kGemma3Keys},
                                                           {.model_type = "gemma3",
                                                            .vocab_size = 262208,
                                                            .num_heads = 8,
                                                            .num_kv_heads = 4,
                                                            .head_dim = 256,
                                                            .max_positions = 131072,
                                                            .theta = 1e6,
                                                            .activation = "gelu_pytorch_tanh",
                                                            .activation_key = "hidden_activation",
                                                            .tied = true,
                                                            .query_scalar = 256.0,
                                                            .windows = Windows::all_but_nth,
                                                            .window = 4096,
                                                            .sliding_theta = 10000.0,
                                                            .is_multi_part = true,
                                                            .may_be_encoder = true,
                                                            .own_keys = kGemma3Keys}}};

LlamaTraits gemma_traits() {
    LlamaTraits traits;
    traits.norm_form.weight_offset = 1.0f;
    traits.scaled_embedding = true;
    return traits;
}

std::unique_ptr<Model> make_gemma(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    return make_llama_like(config, source, settings, gemma_traits());
}

std::unique_ptr<Model> make_gemma2(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings) {
    LlamaTraits traits = gemma_traits();
    traits.norms = kNormsAroundLayers;
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_vaultgemma(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings) {
    LlamaTraits traits = gemma_traits();
    traits.norms.before_mlp = kNormsAroundLayers.before_mlp;
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_gemma3(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings) {
    LlamaTraits traits = gemma_traits();
    traits.norms = kNormsAroundLayers;
    traits.query_key_norm = QueryKeyNorm::heads;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kGemma = {"GemmaForCausalLM", make_gemma, kGemmaConfigs};
extern const FamilyRow kGemma2 = {"Gemma2ForCausalLM", make_gemma2, kGemma2Configs};
extern const FamilyRow kVaultGemma = {"VaultGemmaForCausalLM", make_vaultgemma, kVaultGemmaConfigs};
extern const FamilyRow kGemma3 = {"Gemma3ForCausalLM", make_gemma3, kGemma3Configs};

}  // namespace nvllm
