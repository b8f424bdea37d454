// Mistral (Jiang et al. 2023) and Ministral: Llama with a window, which the config states.
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

}  // namespace

extern const FamilyRow kMistral = {"MistralForCausalLM", make_llama, kMistralConfigs};
extern const FamilyRow kMinistral = {"MinistralForCausalLM", make_llama, kMinistralConfigs};

}  // namespace nvllm
