// HunYuan dense (Tencent 2025): Llama whose queries and keys are normalised after the rotation,
// with NTK-aware frequencies of one length for all; Hunyuan-A13B (2025) with experts beside one
// that all tokens go to.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kHunYuanConfigs = {{{.model_type = "hunyuan_v1_dense",
                                                             .epsilon = 1e-5,
                                                             .own_keys = "attention_bias alpha",
                                                             .idle_keys = "eod_token_id"}}};

// All experts are as wide as intermediate_size says, be it a list or moe_intermediate_size that
// repeats it.
constexpr std::array<FamilyDefaults, 1> kHunYuanMoeConfigs = {
    {{.model_type = "hunyuan_v1_moe",
      .epsilon = 1e-5,
      .normalizes_experts = true,
      .num_experts = 1,
      .experts_per_token = 1,
      .num_shared_experts = 1,
      .renamed_keys = "moe_topk=num_experts_per_tok num_shared_expert=n_shared_experts",
      .own_keys = "attention_bias alpha num_local_experts num_experts num_experts_per_tok "
                  "moe_intermediate_size n_shared_experts",
      .uniform_keys = "num_experts moe_topk num_shared_expert moe_intermediate_size",
      .only_values = "use_cla=false",
      .idle_keys = "eod_token_id cla_share_factor moe_random_routing_dropped_token "
                   "capacity_factor"}}};

std::unique_ptr<Model> make_hunyuan(const ModelConfig& config, WeightSource& source,
                                    const ModelSettings& settings) {
    LlamaTraits traits;
    traits.query_key_norm = QueryKeyNorm::rotated_heads;
    traits.query_norm = "query_layernorm";
    traits.key_norm = "key_layernorm";
    traits.experts.router = "gate.wg";
    traits.experts.shared = "shared_mlp";
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kHunYuanMoe = {"HunYuanMoEV1ForCausalLM", make_hunyuan, kHunYuanMoeConfigs};
extern const FamilyRow kHunYuan = {"HunYuanDenseV1ForCausalLM", make_hunyuan, kHunYuanConfigs};

}  // namespace nvllm
