// Qwen3 and Qwen3-MoE (Qwen Team 2025), and the text parts of Qwen3-VL: every query and key head is
// normalised before it is rotated; head_dim is the config's own.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 2> kQwen3Configs = {
    {{.model_type = "qwen3",
      .head_dim = 128,
      .max_positions = 32768,
      .windows = Windows::switched,
      .window = 4096,
      .own_keys = "attention_bias use_sliding_window sliding_window max_window_layers layer_types"},
     {.model_type = "qwen3_vl_text",
      .other_types = "qwen3_vl",
      .num_kv_heads = 32,
      .head_dim = 128,
      .max_positions = 128000,
      .theta = 5e5,
      .has_mrope = true,
      .is_multi_part = true,
      .own_keys = "attention_bias"}}};

constexpr std::array<FamilyDefaults, 2> kQwen3MoeConfigs = {
    {{.model_type = "qwen3_moe",
      .num_kv_heads = 4,
      .max_positions = 32768,
      .windows = Windows::switched,
      .window = 4096,
      .own_keys = "attention_bias use_sliding_window sliding_window num_local_experts num_experts "
                  "num_experts_per_tok moe_intermediate_size norm_topk_prob decoder_sparse_step "
                  "mlp_only_layers",
      .idle_keys = "max_window_layers"},
     {.model_type = "qwen3_vl_moe_text",
      .other_types = "qwen3_vl_moe",
      .num_kv_heads = 16,
      .max_positions = 128000,
      .theta = 5e5,
      .tied = true,
      .normalizes_experts = true,
      .has_mrope = true,
      .is_multi_part = true,
      .own_keys = "attention_bias num_local_experts num_experts num_experts_per_tok "
                  "moe_intermediate_size decoder_sparse_step mlp_only_layers"}}};

std::unique_ptr<Model> make_qwen3(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    LlamaTraits traits;
    traits.query_key_norm = QueryKeyNorm::heads;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kQwen3 = {"Qwen3ForCausalLM", make_qwen3, kQwen3Configs};
extern const FamilyRow kQwen3Moe = {"Qwen3MoeForCausalLM", make_qwen3, kQwen3MoeConfigs};

}  // namespace nvllm
