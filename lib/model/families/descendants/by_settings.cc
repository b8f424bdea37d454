// Descendants of Llama whose differences are settings: SmolLM3 (Hugging Face 2025) without RoPE in
// every fourth layer, Granite 3 (IBM 2024) with multipliers, InternLM3 (2025), and ERNIE 4.5 (Baidu
// 2025) and Helium (Kyutai 2025), which rotate pairs of neighbours.
#include <array>

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

std::unique_ptr<Model> make_interleaved(const ModelConfig& config, WeightSource& source,
                                        const ModelSettings& settings) {
    LlamaTraits traits;
    traits.rope_pairs = ops::RopePairs::interleaved;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kSmolLm3 = {"SmolLM3ForCausalLM", make_llama, kSmolLm3Configs};
extern const FamilyRow kGranite = {"GraniteForCausalLM", make_llama, kGraniteConfigs};
extern const FamilyRow kInternLm3 = {"InternLM3ForCausalLM", make_llama, kInternLm3Configs};
extern const FamilyRow kErnie = {"Ernie4_5ForCausalLM", make_interleaved, kErnieConfigs};
extern const FamilyRow kHelium = {"HeliumForCausalLM", make_interleaved, kHeliumConfigs};

}  // namespace nvllm
