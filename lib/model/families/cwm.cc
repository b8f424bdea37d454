// CWM (Meta 2025): Llama 3 whose layers, but for one in four, see a window.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr const char* kCwmRope =
    R"({"rope_type": "llama3", "rope_theta": 1000000.0, "factor": 16.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})";

constexpr std::array<FamilyDefaults, 1> kCwmConfigs = {
    {{.model_type = "cwm",
      .num_kv_heads = 8,
      .head_dim = 128,
      .max_positions = 131072,
      .epsilon = 1e-5,
      .theta = 1e6,
      .windows = Windows::three_of_four,
      .window = 8192,
      .rope = kCwmRope,
      .own_keys = "mlp_bias sliding_window layer_types"}}};

}  // namespace

extern const FamilyRow kCwm = {"CwmForCausalLM", make_llama, kCwmConfigs};

}  // namespace nvllm
