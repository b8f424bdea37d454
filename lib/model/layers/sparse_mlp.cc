// Routing, and one gather, product and weighted addition an expert.
#include "lib/model/layers/sparse_mlp.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/ops/elementwise.h"
#include "kernels/thread_pool.h"

namespace nvllm {
namespace {

constexpr int64_t kRowGrain = 16;

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

// Turns router logits into probabilities, in place.
void softmax(std::span<float> values) {
    const float largest = *std::max_element(values.begin(), values.end());
    float sum = 0.0f;
    for (float& value : values) {
        value = std::exp(value - largest);
        sum += value;
    }
    for (float& value : values) value /= sum;
}

// The `count` most probable experts of one token; of equals the first. Consumes `probabilities`.
void choose(std::span<float> probabilities, int64_t count, bool normalize, int32_t* experts,
            float* weights) {
    float sum = 0.0f;
    for (int64_t rank = 0; rank < count; ++rank) {
        const auto best = std::max_element(probabilities.begin(), probabilities.end());
        experts[rank] = static_cast<int32_t>(best - probabilities.begin());
        weights[rank] = *best;
        sum += *best;
        *best = -1.0f;
    }
    for (int64_t rank = 0; normalize && rank < count; ++rank) weights[rank] /= sum;
}

Choices route(const Context& context, const SparseMlp& layer, const ConstTensorView& x) {
    const int64_t tokens = x.dim(0);
    const int64_t per_token = layer.experts_per_token;
    const auto num_experts = static_cast<int64_t>(layer.experts.size());
    const auto chosen = static_cast<size_t>(tokens * per_token);
    const Choices choices{context.scratch->take_array<int32_t>(chosen),
                          context.scratch->take_array<float>(chosen)};
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView logits = take_activations(context, {tokens, num_experts});
    layer.router.apply(context, x, ops::MatmulOutput::overwrite, logits);
    context.threads->parallel_for(tokens, kRowGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t token = begin; token < end; ++token) {
            const std::span<float> row(logits.as<float>() + token * num_experts,
                                       static_cast<size_t>(num_experts));
            softmax(row);
            choose(row, per_token, layer.normalize_weights, choices.experts + token * per_token,
                   choices.weights + token * per_token);
        }
    });
    return choices;
}

// A counting sort of the choices by expert.
TokensByExpert sort_by_expert(const Context& context, const SparseMlp& layer, int64_t tokens,
                              const Choices& choices) {
    const size_t num_experts = layer.experts.size();
    const auto chosen = static_cast<size_t>(tokens * layer.experts_per_token);
    const TokensByExpert sorted{context.scratch->take_array<int32_t>(num_experts + 1),
                                context.scratch->take_array<int32_t>(chosen),
                                context.scratch->take_array<float>(chosen)};
    std::fill_n(sorted.starts, num_experts + 1, 0);
    for (size_t i = 0; i < chosen; ++i) ++sorted.starts[choices.experts[i]];
    // Each start first points behind its run, and moves to its front as the run is filled from
    // behind.
    for (size_t expert = 1; expert <= num_experts; ++expert) {
        sorted.starts[expert] += sorted.starts[expert - 1];
    }
    for (size_t i = chosen; i-- > 0;) {
        const int32_t place = --sorted.starts[choices.experts[i]];
        sorted.rows[place] = static_cast<int32_t>(i / static_cast<size_t>(layer.experts_per_token));
        sorted.weights[place] = choices.weights[i];
    }
    return sorted;
}

// y[rows[i]] += weights[i] * x[i]. Rows are distinct.
void add_weighted_rows(const Context& context, const ConstTensorView& x, const int32_t* rows,
                       const float* weights, const TensorView& y) {
    const int64_t width = x.dim(1);
    context.threads->parallel_for(x.dim(0), kRowGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            const float* from = x.as<float>() + i * x.stride(0);
            float* to = y.as<float>() + rows[i] * y.stride(0);
            for (int64_t column = 0; column < width; ++column)
                to[column] += weights[i] * from[column];
        }
    });
}

void clear(const TensorView& y) {
    for (int64_t row = 0; row < y.dim(0); ++row) {
        std::fill_n(y.as<float>() + row * y.stride(0), y.dim(1), 0.0f);
    }
}

}  // namespace

void SparseMlp::apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
                      const TensorView& y) const {
    const int64_t tokens = x.dim(0);
    const Choices choices = route(context, *this, x);
    const TokensByExpert sorted = sort_by_expert(context, *this, tokens, choices);
    if (how == ops::MatmulOutput::overwrite) clear(y);
    for (size_t expert = 0; expert < experts.size(); ++expert) {
        const int32_t first = sorted.starts[expert];
        const int64_t count = sorted.starts[expert + 1] - first;
        if (count == 0) continue;
        const ScratchArena::Scope scope(*context.scratch);
        const TensorView gathered = take_activations(context, {count, x.dim(1)});
        const TensorView computed = take_activations(context, {count, x.dim(1)});
        ops::gather_rows(context, x, ConstTensorView(sorted.rows + first, DType::i32, {count}),
                         gathered);
        experts[expert].apply(context, gathered, ops::MatmulOutput::overwrite, computed);
        add_weighted_rows(context, computed, sorted.rows + first, sorted.weights + first, y);
    }
}

size_t SparseMlp::scratch_bytes(int64_t tokens, int num_threads) const {
    const size_t chosen = scratch_for_activations(tokens * experts_per_token);
    const auto num_experts = static_cast<int64_t>(experts.size());
    const size_t routing = scratch_for_activations(tokens * num_experts) +
                           scratch_for_bytes(router.scratch_bytes(tokens, num_threads));
    const size_t rows = 2 * scratch_for_activations(tokens * router.in());
    const size_t expert = experts.empty() ? 0 : experts.front().scratch_bytes(tokens, num_threads);
    return 4 * chosen + scratch_for_activations(num_experts + 1) + std::max(routing, rows + expert);
}

size_t SparseMlp::bytes() const {
    size_t bytes = router.bytes();
    for (const Mlp& expert : experts) bytes += expert.bytes();
    return bytes;
}

}  // namespace nvllm
