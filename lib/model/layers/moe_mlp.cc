// Routing, and one gather, product and weighted addition an expert, where they are not stacked.
#include "lib/model/layers/moe_mlp.h"

#include <algorithm>
#include <span>

#include "kernels/ops/activation.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/moe.h"
#include "kernels/rank_sums.h"
#include "lib/model/layers/expert_choices.h"
#include "lib/model/layers/expert_parallel.h"
#include "lib/model/lora/lora_batch.h"
#include "lib/model/weights/rank_sum.h"

namespace nvllm {
namespace {

// Rows and weights where ops read them.
struct PlacedChoices {
    ConstTensorView rows;     // int32 [chosen]
    ConstTensorView weights;  // float32 [chosen]
};

PlacedChoices place(const Context& context, const TokensByExpert& sorted, int64_t chosen) {
    return {placed(context, sorted.rows, DType::i32, chosen),
            placed(context, sorted.weights, DType::f32, chosen)};
}

// What the experts' results are weighted with where their inputs were.
ConstTensorView ones(const Context& context, int64_t count) {
    float* const values = host_scratch(context).take_array<float>(static_cast<size_t>(count));
    if (!context.is_dry_run()) std::fill_n(values, count, 1.0f);
    return placed(context, values, DType::f32, count);
}

// Which of the sorted rows are an expert's.
struct ExpertRows {
    int64_t first;
    int64_t count;
};

// A dry run sends all tokens to each expert, which is the most that it may get.
ExpertRows rows_of(const Context& context, const TokensByExpert& sorted, size_t expert,
                   int64_t tokens) {
    if (context.is_dry_run()) return {0, tokens};
    const int32_t first = sorted.starts[expert];
    return {first, sorted.starts[expert + 1] - first};
}

void clear(const Context& context, const TensorView& y) {
    if (context.is_dry_run()) return;
    const ComputeDevice device(context);
    const size_t bytes = static_cast<size_t>(y.dim(1)) * dtype_bytes(y.dtype);
    if (y.contiguous()) {
        device.clear(context.stream, y.data, bytes * static_cast<size_t>(y.dim(0)));
        return;
    }
    for (int64_t row = 0; row < y.dim(0); ++row) {
        device.clear(context.stream, y.rows(row, 1).data, bytes);
    }
}

// The expert's results for all of x, of which those of `rows` are taken.
void compute_all(const Context& context, const Mlp& expert, const ConstTensorView& x,
                 const ConstTensorView& rows, const TensorView& taken) {
    const TensorView all = take_activations(context, {x.dim(0), x.dim(1)});
    expert.apply(context, x, ops::MatmulOutput::overwrite, all);
    if (rows.dim(0) > 0) ops::gather_rows(context, all, rows, taken);
}

}  // namespace

void MoeMlp::apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
                   const TensorView& y) const {
    if (!sums_with_shared()) return apply_share(context, x, how, y);
    sum_over_ranks(context, how, y, [&](const TensorView& share) {
        apply_share(context, x, ops::MatmulOutput::overwrite, share);
    });
}

void MoeMlp::apply_share(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
                         const TensorView& y) const {
    apply_chosen(context, x, how, y);
    if (shared) add_shared(context, x, y);
}

void MoeMlp::add_shared(const Context& context, const ConstTensorView& x,
                        const TensorView& y) const {
    const ScratchArena::Scope scope(*context.scratch);
    if (shared_gate.out() == 0) return shared->apply(context, x, ops::MatmulOutput::accumulate, y);
    const TensorView out = take_activations(context, {x.dim(0), x.dim(1)});
    shared->apply(context, x, ops::MatmulOutput::overwrite, out);
    const TensorView gates = take_values(context, DType::f32, {x.dim(0), 1});
    shared_gate.apply(context, x, ops::MatmulOutput::overwrite, gates);
    ops::activation(context, ops::Activation::sigmoid, gates, gates);
    ops::scale_rows(context, gates.reshaped({x.dim(0)}), out);
    ops::add(context, out, y);
}

void MoeMlp::apply_chosen(const Context& context, const ConstTensorView& given,
                          ops::MatmulOutput how, const TensorView& y) const {
    const int64_t tokens = given.dim(0);
    if (stack) {
        const ScratchArena::Scope scope(*context.scratch);
        const TensorView logits = router_logits(context, *this, given);
        stack->apply(context, logits, routing, normed(context, input_norm, given), how, y);
        return;
    }
    const ScratchArena::Scope scope(*context.scratch);
    const ConstTensorView x = normed(context, input_norm, given);
    if (latent_in.out() == 0) return apply_experts(context, given, x, how, y);
    const TensorView latent = take_activations(context, {tokens, latent_in.out()});
    latent_in.apply(context, x, ops::MatmulOutput::overwrite, latent);
    const TensorView out = take_activations(context, {tokens, latent_in.out()});
    apply_experts(context, given, latent, ops::MatmulOutput::overwrite, out);
    if (is_cut) ops::all_reduce(context, out);
    latent_out.apply(context, out, how, y);
}

void MoeMlp::apply_experts(const Context& context, const ConstTensorView& given,
                           const ConstTensorView& x, ops::MatmulOutput how,
                           const TensorView& y) const {
    if (share) return apply_expert_parallel(context, given, x, how, y);
    const int64_t tokens = x.dim(0);
    const ScratchArena::Scope host_scope(host_scratch(context));
    const Choices choices = choose(context, *this, given, {0, tokens});
    const ScratchArena::Scope scope_of_input(*context.scratch);
    const TokensByExpert sorted = sort_by_expert(context, *this, tokens, choices);
    const PlacedChoices chosen = place(context, sorted, tokens * routing.experts_per_token);
    const ConstTensorView out_weights =
        weighs_inputs ? ones(context, tokens * routing.experts_per_token) : chosen.weights;
    if (how == ops::MatmulOutput::overwrite) clear(context, y);
    for (size_t expert = 0; expert < experts.size(); ++expert) {
        const auto [first, count] = rows_of(context, sorted, expert, tokens);
        if (count == 0 && !computes_all) continue;
        const ScratchArena::Scope scope(*context.scratch);
        const TensorView computed = take_activations(context, {count, x.dim(1)});
        const ConstTensorView rows = chosen.rows.rows(first, count);
        if (computes_all) {
            compute_all(context, experts[expert], x, rows, computed);
        } else {
            const TensorView gathered = take_activations(context, {count, x.dim(1)});
            ops::gather_rows(context, x, rows, gathered);
            if (weighs_inputs) {
                ops::scale_rows(context, chosen.weights.rows(first, count), gathered);
            }
            const GatheredAdapters adapters(context, rows);
            experts[expert].apply(adapters.context(), gathered, ops::MatmulOutput::overwrite,
                                  computed);
        }
        if (count == 0) continue;
        ops::add_weighted_rows(context, computed, rows, out_weights.rows(first, count), y);
    }
}

// Each rank of the tensor group takes its part of the tokens through the layer; then all have all.
void MoeMlp::apply_expert_parallel(const Context& context, const ConstTensorView& given,
                                   const ConstTensorView& x, ops::MatmulOutput how,
                                   const TensorView& y) const {
    const ScratchArena::Scope host_scope(host_scratch(context));
    const ScratchArena::Scope scope(*context.scratch);
    const int64_t tokens = x.dim(0);
    const int64_t width = x.dim(1);
    const int ranks = share->tensor_ranks;
    const int64_t part = slice_of_rank(tokens, 0, ranks).count;
    // A dry run is of the rank with the most.
    const RankSlice own = context.is_dry_run() ? RankSlice{0, part}
                                               : slice_of_rank(tokens, share->tensor_rank, ranks);
    const Choices choices = choose(context, *this, given, own);
    if (ranks == 1) {
        if (how == ops::MatmulOutput::overwrite) clear(context, y);
        return dispatch_and_combine(context, *this, x, choices, y);
    }
    const TensorView out = take_activations(context, {part, width});
    // Added to what there is, as one rank adds, and then handed to all with it.
    const TensorView sums = out.rows(0, own.count);
    if (how == ops::MatmulOutput::accumulate) {
        ops::copy(context, y.rows(own.first, own.count), sums);
    } else {
        clear(context, sums);
    }
    dispatch_and_combine(context, *this, x.rows(own.first, own.count), choices, sums);
    const TensorView all = take_activations(context, {ranks * part, width});
    ops::gather_rows_of_ranks(context, out, all);
    ops::copy(context, all.rows(0, tokens), y);
}

void MoeMlp::take_part(const Context& context) const {
    const ScratchArena::Scope host_scope(host_scratch(context));
    const ScratchArena::Scope scope(*context.scratch);
    const int64_t width = latent_in.out() > 0 ? latent_in.out() : router.in();
    const TensorView none = take_activations(context, {0, width});
    dispatch_and_combine(context, *this, none, {}, none);
}

size_t MoeMlp::expert_bytes() const {
    size_t bytes = stack ? stack->bytes() : 0;
    for (const Mlp& expert : experts) bytes += expert.bytes();
    return bytes;
}

size_t MoeMlp::bytes() const {
    size_t bytes = router.bytes() + latent_in.bytes() + latent_out.bytes() + expert_bytes() +
                   (router_norm ? router_norm->bytes() : 0) +
                   (input_norm ? input_norm->bytes() : 0);
    if (shared) bytes += shared->bytes() + shared_gate.bytes();
    return bytes;
}

}  // namespace nvllm
