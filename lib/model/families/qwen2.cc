// Qwen2 (Qwen Team 2024) and the text part of Qwen2-VL and Qwen2.5-VL, whose config.json does not
// mention the biases; and Qwen2-MoE, which has a shared expert with a gate.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::string_view kWindowKeys =
    "use_sliding_window sliding_window max_window_layers layer_types";

constexpr std::array<FamilyDefaults, 2> kQwen2Configs = {
    {{.model_type = "qwen2",
      .max_positions = 32768,
      .attention_bias = true,
      .output_bias_key = nullptr,
      .windows = Windows::switched,
      .window = 4096,
      .own_keys = kWindowKeys},
     {.model_type = "qwen2_vl_text",
      .other_types = "qwen2_vl qwen2_5_vl qwen2_5_vl_text",
      .num_kv_heads = 8,
      .max_positions = 32768,
      .epsilon = 1e-5,
      .theta = 1e6,
      .attention_bias = true,
      .output_bias_key = nullptr,
      .windows = Windows::switched,
      .window = 4096,
      .max_window_layers = 80,
      .has_mrope = true,
      .is_multi_part = true,
      .own_keys = kWindowKeys}}};

constexpr std::array<FamilyDefaults, 1> kQwen2MoeConfigs = {
    {{.model_type = "qwen2_moe",
      .num_kv_heads = 16,
      .max_positions = 32768,
      .attention_bias_key = "qkv_bias",
      .attention_bias = true,
      .output_bias_key = nullptr,
      .num_experts = 60,
      .experts_per_token = 4,
      .shared_expert_width = 5632,
      .windows = Windows::switched_even,
      .window = 4096,
      .own_keys = "qkv_bias use_sliding_window sliding_window max_window_layers layer_types "
                  "num_local_experts num_experts num_experts_per_tok moe_intermediate_size "
                  "shared_expert_intermediate_size norm_topk_prob decoder_sparse_step "
                  "mlp_only_layers"}}};

// Whatever model_type the file names with this architecture.
std::unique_ptr<Model> make_qwen2(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    ModelConfig biased = config;
    biased.attention_bias = true;
    biased.attention_output_bias = false;
    return make_llama_like(biased, source, settings, {});
}

std::unique_ptr<Model> make_qwen2_moe(const ModelConfig& config, WeightSource& source,
                                      const ModelSettings& settings) {
    LlamaTraits traits;
    traits.experts.shared = "shared_expert";
    traits.experts.shared_gate = "shared_expert_gate";
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kQwen2 = {"Qwen2ForCausalLM", make_qwen2, kQwen2Configs};
extern const FamilyRow kQwen2Moe = {"Qwen2MoeForCausalLM", make_qwen2_moe, kQwen2MoeConfigs};

}  // namespace nvllm
