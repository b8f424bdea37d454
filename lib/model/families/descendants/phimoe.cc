// Phi-3.5-MoE (Microsoft 2024): layer norms and linears with biases, and experts that SparseMixer
// chooses, under the names of Mixtral's.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kPhimoeConfigs = {
    {{.model_type = "phimoe",
      .vocab_size = 32064,
      .num_heads = 32,
      .num_kv_heads = 8,
      .max_positions = 131072,
      .epsilon = 1e-5,
      .theta = 1e6,
      .intermediate_size = 6400,
      .num_experts = 16,
      .experts_per_token = 2,
      .has_sparse_mixer = true,
      .windows = Windows::all,
      .own_keys = "attention_bias sliding_window num_local_experts num_experts_per_tok "
                  "router_jitter_noise lm_head_bias",
      .idle_keys = "input_jitter_noise"}}};

std::unique_ptr<Model> make_phimoe(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings) {
    LlamaTraits traits;
    traits.norm_form = {.kind = Norm::Kind::layer, .bias = true};
    traits.experts = {"block_sparse_moe", "w1", "w3", "w2"};
    traits.routing.scores = RouterScores::sparse_mixer;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kPhimoe = {"PhimoeForCausalLM", make_phimoe, kPhimoeConfigs};

}  // namespace nvllm
