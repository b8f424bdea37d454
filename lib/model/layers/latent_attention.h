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
#include "lib/model/layers/norm.h"
#include "lib/model/layers/rotary.h"
#include "lib/model/model.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

struct LatentSizes {
    int64_t heads = 0;
    int64_t query_rank = 0;  // of the vector that queries are made of; 0: of the hidden state
    int64_t latent_dim = 0;  // of the cached vector, which values are made of
    int64_t plain_dim = 0;   // of a head's queries and keys, without a rotation
    int64_t rope_dim = 0;    // rotated; of keys one for all heads, cached behind the vector
    int64_t value_dim = 0;

    int64_t query_dim() const { return plain_dim + rope_dim; }
    int64_t queries() const { return heads * query_dim(); }
    int64_t cached() const { return latent_dim + rope_dim; }
};

struct LatentAttention {
    LatentSizes sizes;
    ops::PagedAttentionOptions options;
    ops::RopePairs rope_pairs = ops::RopePairs::halves;
    LinearWeight down;               // [hidden] → queries or what they are made of, then cached()
    std::optional<Norm> query_norm;  // of what queries are made of, where there is such
    LinearWeight queries;            // [query_rank] → queries()
    Norm latent_norm;
    // Of each head: [plain_dim] → [latent_dim], and [latent_dim] → [value_dim].
    std::vector<LinearWeight> keys;
    std::vector<LinearWeight> values;
    LinearWeight output;  // [heads * value_dim] → [hidden]

    // As Attention::apply().
    void apply(const ForwardContext& batch, int32_t index, const CosSin* cos_sin,
               const ConstTensorView& x, ops::MatmulOutput how, const TensorView& y) const;

    size_t bytes() const;

  private:
    TensorView make_queries(const Context& context, const TensorView& projected) const;
};

}  // namespace nvllm
