// Multi-head latent attention (DeepSeek-V2, DeepSeek-AI 2024): one vector of a token is cached,
// from which keys and values of all heads are made.
//
// Neither is made: a query is multiplied with the matrix that would make its head's keys, meets the
// cached vectors themselves, and the sum of these is multiplied with the matrix that would have
// made the values ("absorbed"). Prompts and single tokens are computed alike, so that how a prompt
// was cut changes no bit.
#pragma once

#include <optional>
#include <vector>

#include "kernels/ops/attention.h"
#include "kernels/ops/rope.h"
#include "lib/checkpoint/model_config.h"
#include "lib/model/layers/norm.h"
#include "lib/model/layers/rotary.h"
#include "lib/model/model.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

struct LatentAttention {
    LatentAttentionConfig sizes;
    int64_t heads = 0;
    float scale = 1.0f;  // on q · k
    // Where queries are made of a vector of their own: [hidden] → [query_rank], and its norm.
    LinearWeight query_rank;
    std::optional<Norm> query_norm;
    LinearWeight queries;  // of that vector or of [hidden] → [heads * query_dim]
    LinearWeight cached;   // [hidden] → the vector and the rotated part of keys
    Norm latent_norm;      // of the vector
    // Of each head: [plain_dim] → [latent_dim], and [latent_dim] → [value_dim].
    std::vector<LinearWeight> keys;
    std::vector<LinearWeight> values;
    LinearWeight output;  // [heads * value_dim] → [hidden]

    // As Attention::apply().
    void apply(const ForwardContext& batch, int32_t index, const CosSin* cos_sin,
               const ConstTensorView& x, ops::MatmulOutput how, const TensorView& y) const;

    size_t bytes() const;

  private:
    TensorView make_queries(const Context& context, const ConstTensorView& x) const;
    TensorView make_cached(const Context& context, const ConstTensorView& x) const;
    // Queries [tokens, heads, query_dim] as they meet what is cached: [tokens, heads, cached].
    TensorView absorb(const Context& context, const TensorView& heads_of_tokens) const;
};

}  // namespace nvllm
