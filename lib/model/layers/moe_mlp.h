// A feed-forward layer of experts: each token is computed by the few that a router chooses for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/layers/expert_stack.h"
#include "lib/model/layers/mlp.h"
#include "lib/model/layers/norm.h"
#include "lib/model/layers/routing.h"

namespace nvllm {

// How often each expert of a layer was chosen, where the host sees it.
struct ExpertCounts {
    std::string block;            // "model.layers.3"
    std::vector<int64_t> chosen;  // by expert, dropped ones included
    int64_t dropped = 0;
};

// (Shazeer et al. 2017; Jiang et al. 2024, Mixtral)
struct MoeMlp {
    // The experts of a rank among those of the context's expert ranks, which have as many each.
    struct Share {
        int32_t rank = 0;
        int32_t ranks = 1;
        // Of the tensor group.
        int32_t tensor_rank = 0;
        int32_t tensor_ranks = 1;
        // Which expert is in each slot: as many slots of each rank, rank by rank, the experts of a
        // rank ascending and each once. Some are on several ranks.
        std::vector<int32_t> expert_of_slot;

        int64_t slots_of_rank() const { return std::ssize(expert_of_slot) / ranks; }
    };
    // Empty: `experts` are all. Tokens go to the ranks of their experts and results come back; the
    // ranks of a tensor group have the same tokens, of which each sends its part.
    std::optional<Share> share;
    // Each rank has a slice of every expert and of the shared one, whose results are summed.
    bool is_cut = false;
    std::optional<Norm> router_norm;  // of what the router reads
    std::optional<Norm> input_norm;   // of what the experts read
    LinearWeight router;              // [hidden] → [experts]
    // Around the experts, which read and give vectors of another size; empty: there are none.
    LinearWeight latent_in;    // [hidden] → [latent]
    LinearWeight latent_out;   // [latent] → [hidden]
    std::vector<Mlp> experts;  // one by one, or
    std::optional<ExpertStack> stack;
    Routing routing;
    // An expert takes at most capacity_factor * chosen / experts of a step's choices, rounded up:
    // first choices before second ones, then in the order of the tokens. 0: all. (Lepikhin et al.
    // 2020, GShard)
    double capacity_factor = 0.0;
    std::shared_ptr<ExpertCounts> counts;  // null: another rank counts the same choices
    // Weights are factors on what experts read, and not on what they give (Llama 4).
    bool weighs_inputs = false;
    std::optional<Mlp> shared;  // an expert that all tokens go to
    LinearWeight shared_gate;   // [hidden] → [1], by whose logistic function its result is scaled
    // Each expert computes all tokens, though only the chosen ones' results count: a hook then sees
    // inputs of all experts.
    bool computes_all = false;

    // y (+)= sum of the chosen experts of x, weighted as the routing says; experts are added in
    // ascending order and the shared one at last, so that a token's result does not depend on its
    // neighbours. x, y: float32 [tokens, hidden].
    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
               const TensorView& y) const;

    // apply() for no tokens, where other ranks may have some. REQUIRES: share.
    void take_part(const Context& context) const;

    // Whether one sum over ranks is of the experts and of the shared one. Between `latent_in` and
    // `latent_out` the experts are summed by themselves.
    bool sums_with_shared() const { return is_cut && latent_in.out() == 0; }

    int64_t num_experts() const { return router.out(); }
    size_t bytes() const;
    size_t expert_bytes() const;
    // That a step takes over ranks: of the experts, and of the shared one where that is apart.
    int32_t rank_sums() const {
        return is_cut + (shared && !sums_with_shared() ? shared->rank_sums() : 0);
    }

  private:
    // The experts that are elsewhere as well, in the ranks' parts of the tokens.
    void apply_expert_parallel(const Context& context, const ConstTensorView& given,
                               const ConstTensorView& x, ops::MatmulOutput how,
                               const TensorView& y) const;
    // apply() without the sum over ranks of sums_with_shared().
    void apply_share(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
                     const TensorView& y) const;
    void apply_chosen(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
                      const TensorView& y) const;
    // The experts that `x` chooses, of `inputs`.
    void apply_experts(const Context& context, const ConstTensorView& x,
                       const ConstTensorView& inputs, ops::MatmulOutput how,
                       const TensorView& y) const;
    void add_shared(const Context& context, const ConstTensorView& x, const TensorView& y) const;
};

}  // namespace nvllm
