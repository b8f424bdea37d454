// Nemotron (Nvidia 2024; Minitron): layer norms whose weights are stored less 1, an MLP without a
// gate, half of each head rotated.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kNemotronConfigs = {
    {{.model_type = "nemotron",
      .max_positions = 4096,
      .epsilon = 1e-5,
      .activation = "relu2",
      .epsilon_key = "norm_eps",
      .mlp_matrices = 2,
      .partial_rotary = 0.5,
      .own_keys = "attention_bias mlp_bias partial_rotary_factor"}}};

std::unique_ptr<Model> make_nemotron(const ModelConfig& config, WeightSource& source,
                                     const ModelSettings& settings) {
    LlamaTraits traits;
    traits.norm_form = {.kind = Norm::Kind::layer, .bias = true, .weight_offset = 1.0f};
    traits.gated_mlp = false;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kNemotron = {"NemotronForCausalLM", make_nemotron, kNemotronConfigs};

}  // namespace nvllm
