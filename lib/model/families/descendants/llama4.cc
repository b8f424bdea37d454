// Llama 4 (Meta 2025), its text part: attention within chunks in layers that rotate, whose queries
// and keys are normalised behind it; growing queries in the others; experts whose inputs are
// weighted, beside one for all tokens.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr FamilyDefaults config_of(std::string_view model_type, bool is_multi_part) {
    FamilyDefaults config;
    config.model_type = model_type;
    config.vocab_size = 202048;
    config.num_heads = 40;
    config.num_kv_heads = 8;
    config.head_dim = 128;
    config.max_positions = 131072;
    config.epsilon = 1e-5;
    config.theta = 5e5;
    config.dense_width_key = "intermediate_size_mlp";
    config.dense_width = 16384;
    config.intermediate_size = 8192;
    config.num_experts = 16;
    config.experts_per_token = 1;
    config.num_shared_experts = 1;
    config.query_key_norm = true;
    config.rotated = RotatedLayers::listed;
    config.has_chunks = true;
    config.is_multi_part = is_multi_part;
    config.own_keys =
        "attention_bias intermediate_size_mlp no_rope_layers no_rope_layer_interval "
        "attention_chunk_size layer_types attn_temperature_tuning attn_scale floor_scale "
        "use_qk_norm num_local_experts num_experts_per_tok moe_layers interleave_moe_layer_step";
    config.idle_keys = "for_llm_compressor";
    return config;
}

constexpr std::array<FamilyDefaults, 2> kLlama4Configs = {config_of("llama4_text", false),
                                                          config_of("llama4", true)};

std::unique_ptr<Model> make_llama4(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings) {
    LlamaTraits traits;
    traits.rope_pairs = ops::RopePairs::interleaved;
    traits.query_key_norm = QueryKeyNorm::rotated_heads;
    traits.has_plain_query_key_norm = true;
    traits.mlp.layer = "feed_forward";
    traits.experts.layer = "feed_forward";
    traits.experts.router = "router";
    traits.experts.has_turned_stacks = true;
    traits.experts.shared = "shared_expert";
    traits.routing.scores = RouterScores::chosen_sigmoid;
    traits.weighs_inputs = true;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kLlama4 = {"Llama4ForCausalLM", make_llama4, kLlama4Configs};

}  // namespace nvllm
