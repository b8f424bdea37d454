// MiniMax M2 (2025): the names of Mixtral's experts, the routing of DeepSeek V3, and queries and
// keys that are normalised over all heads.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kMiniMaxM2Configs = {
    {{.model_type = "minimax_m2",
      .num_kv_heads = 8,
      .head_dim = 128,
      .max_positions = 196608,
      .theta = 5e6,
      .output_bias_key = nullptr,
      .normalizes_experts = true,
      .num_experts = 256,
      .experts_per_token = 8,
      .own_keys = "num_local_experts num_experts num_experts_per_tok partial_rotary_factor "
                  "rotary_dim",
      // What MiniMax's files say beside the keys that transformers reads.
      .idle_keys = "use_qk_norm qk_norm_type scoring_func use_routing_bias attn_type_list use_mtp "
                   "num_mtp_modules mtp_transformer_layers shared_intermediate_size "
                   "shared_moe_mode layernorm_full_attention_beta "
                   "layernorm_linear_attention_beta layernorm_mlp_beta"}}};

std::unique_ptr<Model> make_minimax_m2(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings) {
    LlamaTraits traits;
    traits.query_key_norm = QueryKeyNorm::projections;
    traits.experts = {"block_sparse_moe", "w1", "w3", "w2"};
    traits.experts.choice_bias = "e_score_correction_bias";
    traits.routing.scores = RouterScores::sigmoid;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kMiniMaxM2 = {"MiniMaxM2ForCausalLM", make_minimax_m2, kMiniMaxM2Configs};

}  // namespace nvllm
