// Descendants with layer norms, most of them with biases and MLPs without a gate: StarCoder2
// (BigCode 2024), Phi 1 to 2 (Microsoft 2023), StableLM 2 (Stability AI 2024), Jais 2 (2025), and
// OLMo (Ai2 2024), whose norms have no weights.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr NormForm kWithBias = {.kind = Norm::Kind::layer, .bias = true};

constexpr std::array<FamilyDefaults, 1> kStarCoder2Configs = {
    {{.model_type = "starcoder2",
      .num_kv_heads = 2,
      .max_positions = 4096,
      .epsilon = 1e-5,
      .activation = "gelu_pytorch_tanh",
      .epsilon_key = "norm_epsilon",
      .mlp_matrices = 2,
      .tied = true,
      .attention_bias_key = "use_bias",
      .attention_bias = true,
      .output_bias_key = "use_bias",
      .output_bias = true,
      .mlp_bias_key = "use_bias",
      .mlp_bias = true,
      .windows = Windows::all,
      .own_keys = "use_bias sliding_window",
      .only_values = "mlp_type=\"default\" norm_type=\"layer_norm\"",
      .idle_keys = "attention_softmax_in_fp32 scale_attention_softmax_in_fp32"}}};

constexpr std::array<FamilyDefaults, 1> kPhiConfigs = {{{.model_type = "phi",
                                                         .epsilon = 1e-5,
                                                         .activation = "gelu_new",
                                                         .epsilon_key = "layer_norm_eps",
                                                         .mlp_matrices = 2,
                                                         .attention_bias_key = nullptr,
                                                         .attention_bias = true,
                                                         .output_bias_key = nullptr,
                                                         .output_bias = true,
                                                         .mlp_bias = true,
                                                         .head_bias = true,
                                                         .partial_rotary = 0.5,
                                                         .own_keys = "partial_rotary_factor",
                                                         .only_values = "qk_layernorm=false"}}};

constexpr std::array<FamilyDefaults, 1> kStableLmConfigs = {
    {{.model_type = "stablelm",
      .num_kv_heads = 32,
      .max_positions = 4096,
      .epsilon = 1e-5,
      .epsilon_key = "layer_norm_eps",
      .attention_bias_key = "use_qkv_bias",
      .output_bias_key = nullptr,
      .partial_rotary = 0.25,
      .own_keys = "use_qkv_bias use_parallel_residual partial_rotary_factor",
      .only_values = "qk_layernorm=false"}}};

constexpr std::array<FamilyDefaults, 1> kJais2Configs = {{{.model_type = "jais2",
                                                           .max_positions = 8192,
                                                           .epsilon = 1e-5,
                                                           .activation = "relu2",
                                                           .epsilon_key = "layer_norm_eps",
                                                           .mlp_matrices = 2,
                                                           .attention_bias = true,
                                                           .output_bias = true,
                                                           .mlp_bias = true,
                                                           .own_keys = "attention_bias mlp_bias"}}};

constexpr std::array<FamilyDefaults, 1> kOlmoConfigs = {{{.model_type = "olmo",
                                                          .epsilon = 1e-5,
                                                          .epsilon_key = nullptr,
                                                          .own_keys = "attention_bias",
                                                          .only_values = "clip_qkv=null"}}};

std::unique_ptr<Model> make_starcoder2(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings) {
    LlamaTraits traits;
    traits.norm_form = kWithBias;
    traits.gated_mlp = false;
    traits.mlp.up = "c_fc";
    traits.mlp.down = "c_proj";
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_phi(const ModelConfig& config, WeightSource& source,
                                const ModelSettings& settings) {
    LlamaTraits traits;
    traits.norm_form = kWithBias;
    traits.norms = {"input_layernorm", nullptr, nullptr, nullptr};
    traits.is_parallel = true;
    traits.attention_output = "dense";
    traits.gated_mlp = false;
    traits.mlp.up = "fc1";
    traits.mlp.down = "fc2";
    traits.final_norm = "final_layernorm";
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_stablelm(const ModelConfig& config, WeightSource& source,
                                     const ModelSettings& settings) {
    LlamaTraits traits;
    traits.norm_form = kWithBias;
    traits.is_parallel = config.is_parallel;
    if (traits.is_parallel) traits.norms.before_mlp = nullptr;
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_jais2(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    LlamaTraits traits;
    traits.norm_form = kWithBias;
    traits.gated_mlp = false;
    return make_llama_like(config, source, settings, traits);
}

std::unique_ptr<Model> make_olmo1(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    LlamaTraits traits;
    traits.norm_form = {.kind = Norm::Kind::layer, .has_weights = false};
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kStarCoder2 = {"Starcoder2ForCausalLM", make_starcoder2, kStarCoder2Configs};
extern const FamilyRow kPhi = {"PhiForCausalLM", make_phi, kPhiConfigs};
extern const FamilyRow kStableLm = {"StableLmForCausalLM", make_stablelm, kStableLmConfigs};
extern const FamilyRow kJais2 = {"Jais2ForCausalLM", make_jais2, kJais2Configs};
extern const FamilyRow kOlmo = {"OlmoForCausalLM", make_olmo1, kOlmoConfigs};

}  // namespace nvllm
