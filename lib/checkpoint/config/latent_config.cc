// Parsing of the sizes of latent attention.
#include "lib/checkpoint/config/latent_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/checkpoint/config/config_limits.h"

namespace nvllm {
namespace {

int64_t size_of(const ConfigFields& fields, const char* key) {
    const auto size = fields.integer(key, 1, kMaxHeadDim);
    if (!size) fields.refuse(key, "a model with latent attention needs it");
    return *size;
}

// null says that there is none, which an absent key does not say.
int64_t query_rank_of(const ConfigFields& fields) {
    constexpr const char* key = "q_lora_rank";
    if (!fields.json().contains(key)) {
        fields.refuse(key, "a size is expected, or null where queries have no vector of their own");
    }
    return fields.integer(key, 1, kMaxIntermediate).value_or(0);
}

// A key that repeats what others say.
void check_repeated(const ConfigFields& fields, const char* key, int64_t said, const char* by) {
    const auto size = fields.integer(key, 1, 2 * kMaxHeadDim);
    if (size && *size != said) fields.refuse(key, fmt::format("{} make it {}", by, said));
}

void check_widths(const ConfigFields& fields, const LatentAttentionConfig& latent,
                  int64_t num_heads) {
    for (const auto& [key, size] :
         {std::pair("qk_nope_head_dim", latent.query_dim()),
          std::pair("v_head_dim", latent.value_dim), std::pair("kv_lora_rank", latent.cached())}) {
        if (num_heads * size <= kMaxIntermediate) continue;
        fields.refuse(key,
                      fmt::format("{} heads of it are wider than {}", num_heads, kMaxIntermediate));
    }
    if (latent.cached() > kMaxHeadDim) {
        fields.refuse("kv_lora_rank",
                      fmt::format("with qk_rope_head_dim it is above {}", kMaxHeadDim));
    }
    if (latent.rope_dim % 2 != 0) {
        fields.refuse("qk_rope_head_dim", "rotary embeddings need an even one");
    }
}

}  // namespace

LatentAttentionConfig read_latent_attention(const ConfigFields& fields,
                                            const FamilyDefaults& family, int64_t num_heads) {
    LatentAttentionConfig latent;
    latent.query_rank = query_rank_of(fields);
    latent.latent_dim = size_of(fields, "kv_lora_rank");
    latent.plain_dim = size_of(fields, "qk_nope_head_dim");
    latent.rope_dim = size_of(fields, "qk_rope_head_dim");
    latent.value_dim = size_of(fields, "v_head_dim");
    latent.interleaved = fields.boolean("rope_interleave").value_or(true);
    check_widths(fields, latent, num_heads);
    if (!contains_word(family.idle_keys, "head_dim")) {
        check_repeated(fields, "head_dim", latent.rope_dim, "qk_rope_head_dim");
    }
    check_repeated(fields, "qk_head_dim", latent.query_dim(),
                   "qk_nope_head_dim and qk_rope_head_dim");
    return latent;
}

}  // namespace nvllm
