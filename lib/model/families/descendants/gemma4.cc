// Gemma 4 (Gemma Team 2026), its text part: norms around layers, stored as they are; heads of other
// sizes in layers of full attention, where values may be keys; the last layers share keys and
// values of earlier ones; vectors of a token for each layer; experts beside the MLP.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr const char* kGemma4Rope =
    R"({"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                           "rope_theta": 1000000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})";

constexpr FamilyDefaults config_of(std::string_view model_type, bool is_multi_part) {
    FamilyDefaults config;
    config.model_type = model_type;
    config.vocab_size = 262144;
    config.num_heads = 8;
    config.num_kv_heads = 4;
    config.head_dim = 256;
    config.max_positions = 131072;
    config.theta = 1e6;
    config.activation = "gelu_pytorch_tanh";
    config.activation_key = "hidden_activation";
    config.tied = true;
    config.intermediate_size = 9216;
    config.normalizes_experts = true;
    config.windows = Windows::all_but_nth;
    config.window = 512;
    config.sliding_theta = 10000.0;
    config.attention_scale = 1.0;
    config.rope = kGemma4Rope;
    config.has_layer_differences = true;
    config.is_multi_part = is_multi_part;
    config.own_keys =
        "attention_bias final_logit_softcapping sliding_window layer_types "
        "use_bidirectional_attention partial_rotary_factor global_head_dim per_layer_config "
        "num_global_key_value_heads attention_k_eq_v num_kv_shared_layers use_double_wide_mlp "
        "hidden_size_per_layer_input vocab_size_per_layer_input enable_moe_block num_experts "
        "top_k_experts moe_intermediate_size";
    return config;
}

constexpr std::array<FamilyDefaults, 2> kGemma4Configs = {config_of("gemma4_text", false),
                                                          config_of("gemma4", true)};

std::unique_ptr<Model> make_gemma4(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings) {
    LlamaTraits traits;
    traits.scaled_embedding = true;
    traits.norms = kNormsAroundLayers;
    traits.query_key_norm = QueryKeyNorm::heads;
    traits.has_value_norm = true;
    traits.has_layer_scale = true;
    traits.experts = {"", "gate_proj", "up_proj", "down_proj"};
    traits.experts.router = "router.proj";
    traits.experts.router_scale = "router.scale";
    traits.experts.scales = "router.per_expert_scale";
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kGemma4 = {"Gemma4ForCausalLM", make_gemma4, kGemma4Configs};

}  // namespace nvllm
