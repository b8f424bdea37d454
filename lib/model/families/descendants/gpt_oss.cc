// gpt-oss (OpenAI 2025): attention with sinks and a window in every second layer, and experts with
// biases whose gate and up are clamped; their matrices are published in MXFP4.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr const char* kRope =
    R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "truncate": false, "original_max_position_embeddings": 4096})";

constexpr std::array<FamilyDefaults, 1> kGptOssConfigs = {
    {{.model_type = "gpt_oss",
      .vocab_size = 201088,
      .num_heads = 64,
      .num_kv_heads = 8,
      .head_dim = 64,
      .max_positions = 131072,
      .epsilon = 1e-5,
      .theta = 150000.0,
      .attention_bias = true,
      .output_bias = true,
      .num_experts = 128,
      .experts_per_token = 4,
      .windows = Windows::alternating,
      .window = 128,
      .rope = kRope,
      .own_keys = "attention_bias sliding_window layer_types num_local_experts num_experts "
                  "num_experts_per_tok swiglu_alpha swiglu_limit",
      // What OpenAI's files say beside the keys that transformers reads; experts have one function.
      .idle_keys = "experts_per_token initial_context_length hidden_act"}}};

std::unique_ptr<Model> make_gpt_oss(const ModelConfig& config, WeightSource& source,
                                    const ModelSettings& settings) {
    LlamaTraits traits;
    traits.has_sinks = true;
    traits.experts = {"mlp", "gate_proj", "up_proj", "down_proj"};
    traits.experts.router = "router";
    traits.experts.has_router_bias = true;
    traits.clamped_experts = true;
    traits.routing.scores = RouterScores::chosen_softmax;
    return make_llama_like(config, source, settings, traits);
}

}  // namespace

extern const FamilyRow kGptOss = {"GptOssForCausalLM", make_gpt_oss, kGptOssConfigs};

}  // namespace nvllm
