// A feed-forward layer of experts: each token is computed by the few that a router chooses for it.
// No token is dropped.
#pragma once

#include <optional>
#include <vector>

#include "lib/model/layers/expert_stack.h"
#include "lib/model/layers/mlp.h"

namespace nvllm {

// An expert that computes all tokens beside the chosen ones, times sigmoid(gate x).
struct SharedExpert {
    Mlp mlp;
    LinearWeight gate;  // [hidden] → [1]

    // y += what it gives.
    void add(const Context& context, const ConstTensorView& x, const TensorView& y) const;
};

// (Shazeer et al. 2017; Jiang et al. 2024, Mixtral)
struct MoeMlp {
    LinearWeight router;       // [hidden] → [experts]
    std::vector<Mlp> experts;  // one by one, or
    std::optional<ExpertStack> stack;
    std::optional<SharedExpert> shared;
    int64_t experts_per_token = 0;
    bool normalize_weights = false;  // the chosen experts' weights are scaled to sum to 1
    // Each expert computes all tokens, though only the chosen ones' results count: a hook then sees
    // inputs of all experts.
    bool computes_all = false;

    // y (+)= sum of the chosen experts of x, weighted by the router's probabilities, and then the
    // shared one; experts are added in ascending order, so that a token's result does not depend on
    // its neighbours. x, y: float32 [tokens, hidden].
    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
               const TensorView& y) const;

    size_t bytes() const;

  private:
    void apply_chosen(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
                      const TensorView& y) const;
};

}  // namespace nvllm
