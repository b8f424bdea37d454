// OLMo 2 and 3 (Ai2 2024, 2025): norms behind the layers and none before; queries and keys are
// normalised over all heads, as OLMoE (2024) does, which has norms before the layers, and FlexOlmo
// (2025), both with experts. OLMo 3 has windows, whose layers keep their RoPE unscaled. EXAONE 4
// (LG 2025) has the norms of OLMo 2 and normalises each head; its layers without a window see no
// positions where others have one.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kOlmo2Configs = {
    {{.model_type = "olmo2", .epsilon = 1e-5, .own_keys = "attention_bias"}}};

constexpr std::array<FamilyDefaults, 1> kOlmo3Configs = {
    {{.model_type = "olmo3",
      .epsilon = 1e-5,
      .theta = 5e5,
      .windows = Windows::all_but_nth,
      .window = 4096,
      .window_pattern = 4,
      .sliding_theta = 5e5,
      .own_keys = "attention_bias sliding_window layer_types"}}};

constexpr std::array<FamilyDefaults, 1> kExaone4Configs = {
    {{.model_type = "exaone4",
      .num_kv_heads = 32,
      .epsilon = 1e-5,
      .output_bias_key = nullptr,
      .windows = Windows::all_but_nth,
      .window = 4096,
      .window_pattern = 4,
      .rotated = RotatedLayers::windowed_if_windows,
      .own_keys = "sliding_window sliding_window_pattern layer_types"}}};

// Experts of OLMo 2's successors, without one for all tokens.
constexpr FamilyDefaults olmo_moe_config(const char* model_type) {
    return {.model_type = model_type,
            .max_positions = 4096,
            .num_experts = 64,
            .experts_per_token = 8,
            .own_keys =
                "attention_bias num_local_experts num_experts num_experts_per_tok "
                "norm_topk_prob",
            .only_values = "clip_qkv=null"};
}

constexpr FamilyDefaults olmoe_config() {
    FamilyDefaults config = olmo_moe_config("olmoe");
    config.epsilon = 1e-5;
    return config;
}

constexpr FamilyDefaults flex_olmo_config() {
    FamilyDefaults config = olmo_moe_config("flex_olmo");
    config.theta = 5e5;
    config.num_experts = 7;
    config.experts_per_token = 5;
    return config;
}

constexpr std::array<FamilyDefaults, 1> kOlmoeConfigs = {olmoe_config()};
constexpr std::array<FamilyDefaults, 1> kFlexOlmoConfigs = {flex_olmo_config()};

std::unique_ptr<Model> make_olmoe(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    LlamaTraits traits;
    traits.query_key_norm = QueryKeyNorm::projections;
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_behind(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings, QueryKeyNorm query_key_norm) {
    LlamaTraits traits;
    traits.norms = kNormsBehindLayers;
    traits.query_key_norm = query_key_norm;
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_olmo(const ModelConfig& config, WeightSource& source,
                                 const ModelSettings& settings) {
    return make_behind(config, source, settings, QueryKeyNorm::projections);
}

std::unique_ptr<Model> make_exaone4(const ModelConfig& config, WeightSource& source,
                                    const ModelSettings& settings) {
    return make_behind(config, source, settings, QueryKeyNorm::heads);
}

}  // namespace

extern const FamilyRow kOlmo2 = {"Olmo2ForCausalLM", make_olmo, kOlmo2Configs};
extern const FamilyRow kOlmo3 = {"Olmo3ForCausalLM", make_olmo, kOlmo3Configs};
extern const FamilyRow kOlmoe = {"OlmoeForCausalLM", make_olmoe, kOlmoeConfigs};
extern const FamilyRow kFlexOlmo = {"FlexOlmoForCausalLM", make_olmo, kFlexOlmoConfigs};
extern const FamilyRow kExaone4 = {"Exaone4ForCausalLM", make_exaone4, kExaone4Configs};

}  // namespace nvllm
