// Cohere's Command R (2024), and Cohere 2 (Command R7B, 2024): attention and MLP side by side
// behind one layer norm; logits are scaled. Layers of the latter without a window see no positions.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kCohereConfigs = {
    {{.model_type = "cohere",
      .max_positions = 8192,
      .epsilon = 1e-5,
      .theta = 5e5,
      .epsilon_key = "layer_norm_eps",
      .tied = true,
      .logit_scale = 0.0625,
      .own_keys = "attention_bias logit_scale",
      .only_values = "use_qk_norm=false"}}};

constexpr std::array<FamilyDefaults, 1> kCohere2Configs = {
    {{.model_type = "cohere2",
      .max_positions = 8192,
      .epsilon = 1e-5,
      .epsilon_key = "layer_norm_eps",
      .tied = true,
      .windows = Windows::all_but_nth,
      .window = 4096,
      .window_pattern = 4,
      .rotated = RotatedLayers::windowed,
      .logit_scale = 0.0625,
      .own_keys = "attention_bias sliding_window sliding_window_pattern layer_types "
                  "logit_scale"}}};

std::unique_ptr<Model> make_cohere(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings) {
    LlamaTraits traits;
    traits.rope_pairs = ops::RopePairs::interleaved;
    traits.norms = {"input_layernorm", nullptr, nullptr, nullptr};
    traits.norm_form = {.kind = Norm::Kind::layer};
    traits.is_parallel = true;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kCohere = {"CohereForCausalLM", make_cohere, kCohereConfigs};
extern const FamilyRow kCohere2 = {"Cohere2ForCausalLM", make_cohere, kCohere2Configs};

}  // namespace nvllm
