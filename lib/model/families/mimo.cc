// MiMo (Xiaomi 2025): Qwen2, and next-token layers beside its own, which are for drafts
// (lib/model/drafts/mtp.h).
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kMiMoConfigs = {
    {{.model_type = "mimo",
      .max_positions = 32768,
      .attention_bias = true,
      .output_bias_key = nullptr,
      .windows = Windows::switched,
      .window = 4096,
      .own_keys = "attention_bias use_sliding_window sliding_window max_window_layers layer_types",
      .idle_keys = "num_nextn_predict_layers"}}};

bool is_of_next_token_layer(const std::string& tensor, const ModelConfig&) {
    return tensor.starts_with("model.mtp_layers.");
}

LlamaTraits next_token_traits(const ModelConfig&) { return {}; }

}  // namespace

extern const FamilyRow kMiMo = {"MiMoForCausalLM", make_llama, kMiMoConfigs, is_of_next_token_layer,
                                next_token_traits};

}  // namespace nvllm
