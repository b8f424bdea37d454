// Mistral (Jiang et al. 2023) and Ministral: Llama with a window, which the config states. Queries
// of Ministral 3 grow with the position, which its RoPE states.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kMistralConfigs = {{{.model_type = "mistral",
                                                             .num_kv_heads = 8,
                                                             .max_positions = 131072,
                                                             .windows = Windows::all,
                                                             .window = 4096,
                                                             .own_keys = "sliding_window"}}};

constexpr std::array<FamilyDefaults, 1> kMinistralConfigs = {
    {{.model_type = "ministral",
      .num_kv_heads = 8,
      .max_positions = 131072,
      .windows = Windows::all,
      .window = 4096,
      .own_keys = "sliding_window layer_types"}}};

constexpr const char* kMinistral3Rope =
    R"({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "original_max_position_embeddings": 16384, "mscale_all_dim": 1.0,
        "mscale": 1.0, "llama_4_scaling_beta": 0.1})";

constexpr std::array<FamilyDefaults, 1> kMinistral3Configs = {
    {{.model_type = "ministral3",
      .num_kv_heads = 8,
      .head_dim = 128,
      .max_positions = 262144,
      .epsilon = 1e-5,
      .windows = Windows::all,
      .rope = kMinistral3Rope,
      .own_keys = "sliding_window llama_4_scaling_beta"}}};

}  // namespace

extern const FamilyRow kMistral = {"MistralForCausalLM", make_llama, kMistralConfigs};
extern const FamilyRow kMinistral = {"MinistralForCausalLM", make_llama, kMinistralConfigs};
extern const FamilyRow kMinistral3 = {"Ministral3ForCausalLM", make_llama, kMinistral3Configs};

}  // namespace nvllm
