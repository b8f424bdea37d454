// Qwen2 (Qwen Team 2024) and the text part of Qwen2-VL and Qwen2.5-VL. Their config.json does not
// mention the biases.
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

// Whatever model_type the file names with this architecture.
std::unique_ptr<Model> make_qwen2(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    ModelConfig biased = config;
    biased.attention_bias = true;
    biased.attention_output_bias = false;
    return make_llama_like(biased, source, settings, {});
}

}  // namespace

extern const FamilyRow kQwen2 = {"Qwen2ForCausalLM", make_qwen2, kQwen2Configs};

}  // namespace nvllm
