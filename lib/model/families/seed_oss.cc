// Seed-OSS (ByteDance 2025): Llama with biases on queries, keys and values.
#include <array>

#include "lib/model/families/family.h"
#include "lib/model/families/llama.h"

namespace nvllm {
namespace {

constexpr std::array<FamilyDefaults, 1> kSeedOssConfigs = {
    {{.model_type = "seed_oss",
      .num_kv_heads = 8,
      .head_dim = 128,
      .max_positions = 524288,
      .attention_bias = true,
      .output_bias_key = "attention_out_bias",
      .own_keys = "attention_bias attention_out_bias mlp_bias"}}};

}  // namespace

extern const FamilyRow kSeedOss = {"SeedOssForCausalLM", make_llama, kSeedOssConfigs};

}  // namespace nvllm
