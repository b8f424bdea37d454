// Phi-3 and Phi-3.5 (Microsoft 2024), and the text part of Phi-4-multimodal: q, k and v lie in one
// matrix, gate and up in another; longrope and windows are in the config.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 2> kPhi3Configs = {
    {{.model_type = "phi3",
      .max_positions = 4096,
      .epsilon = 1e-5,
      .windows = Windows::all,
      .own_keys = "sliding_window partial_rotary_factor"},
     {.model_type = "phi4_multimodal",
      .num_kv_heads = 8,
      .max_positions = 131072,
      .epsilon = 1e-5,
      .windows = Windows::all,
      .is_multi_part = true,
      .own_keys = "sliding_window partial_rotary_factor"}}};

std::unique_ptr<Model> make_phi3(const ModelConfig& config, WeightSource& source,
                                 const ModelSettings& settings) {
    LlamaTraits traits;
    traits.fused.query_key_value = "qkv_proj";
    traits.mlp.gate_up = "gate_up_proj";
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kPhi3 = {"Phi3ForCausalLM", make_phi3, kPhi3Configs};

}  // namespace nvllm
