// Mixtral (Jiang et al. 2024). Its experts keep the names of the paper: w1 is the gate, w3 goes up,
// w2 goes down.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kMixtralConfigs = {
    {{.model_type = "mixtral",
      .num_kv_heads = 8,
      .max_positions = 131072,
      .epsilon = 1e-5,
      .theta = 1e6,
      .normalizes_experts = true,
      .windows = Windows::all,
      .own_keys = "sliding_window num_local_experts num_experts num_experts_per_tok"}}};

std::unique_ptr<Model> make_mixtral(const ModelConfig& config, WeightSource& source,
                                    const ModelSettings& settings) {
    LlamaTraits traits;
    traits.experts = {"block_sparse_moe", "w1", "w3", "w2"};
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kMixtral = {"MixtralForCausalLM", make_mixtral, kMixtralConfigs};

}  // namespace nvllm
