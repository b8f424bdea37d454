// Which tokens go to which experts of a layer, on the host.
#pragma once

#include <cstdint>

#include "kernels/context.h"
#include "kernels/rank_sums.h"
#include "lib/model/layers/moe_mlp.h"

namespace nvllm {

// For each token its experts and their weights, best first: [tokens, experts_per_token].
struct Choices {
    int32_t* experts;
    float* weights;
};

// The tokens of each expert, ascending: those of expert e are rows[starts[e]] ... rows[starts[e +
// 1] - 1].
struct TokensByExpert {
    int32_t* starts;  // [experts + 1]
    int32_t* rows;    // [tokens * experts_per_token]
    float* weights;   // alike
};

// `x` itself where there is no norm.
ConstTensorView normed(const Context& context, const std::optional<Norm>& norm,
                       const ConstTensorView& x);

// float32 [tokens, experts].
TensorView router_logits(const Context& context, const MoeMlp& layer, const ConstTensorView& x);

// Of x [tokens, hidden], on the host's scratch; without values in a dry run.
Choices route(const Context& context, const MoeMlp& layer, const ConstTensorView& x);

// The choices of the rows `own`, of all of x: those that no expert has room for are
// negative: the complement of the expert. They are counted where the layer counts.
Choices choose(const Context& context, const MoeMlp& layer, const ConstTensorView& x,
               const RankSlice& own);

// A counting sort of the choices by expert, alike; without negative ones.
TokensByExpert sort_by_expert(const Context& context, const MoeMlp& layer, int64_t tokens,
                              const Choices& choices);

}  // namespace nvllm
