// HunYuan dense (Tencent 2025): Llama whose queries and keys are normalised after the rotation,
// with NTK-aware frequencies of one length for all.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kHunYuanConfigs = {{{.model_type = "hunyuan_v1_dense",
                                                             .epsilon = 1e-5,
                                                             .own_keys = "attention_bias alpha",
                                                             .idle_keys = "eod_token_id"}}};

std::unique_ptr<Model> make_hunyuan(const ModelConfig& config, WeightSource& source,
                                    const ModelSettings& settings) {
    LlamaTraits traits;
    traits.query_key_norm = QueryKeyNorm::rotated_heads;
    traits.query_norm = "query_layernorm";
    traits.key_norm = "key_layernorm";
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kHunYuan = {"HunYuanDenseV1ForCausalLM", make_hunyuan, kHunYuanConfigs};

}  // namespace nvllm
