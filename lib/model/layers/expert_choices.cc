// Routing by the host, row by row.
#include "lib/model/layers/expert_choices.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {
namespace {

constexpr int64_t kRowGrain = 16;

// The router's logits where the host can read them: float32 [tokens, experts].
TensorView logits_for_host(const Context& context, const MoeMlp& layer, const ConstTensorView& x) {
    const int64_t num_experts = layer.num_experts();
    const TensorView logits = router_logits(context, layer, x);
    const ComputeDevice device(context);
    if (device.is_cpu()) return logits;
    const auto count = static_cast<size_t>(logits.numel());
    float* const copy = host_scratch(context).take_array<float>(count);
    if (context.is_dry_run()) return logits;
    device.copy_out(context.stream, copy, logits.data, count * sizeof(float));
    device.synchronize(context.stream);
    return {copy, DType::f32, {x.dim(0), num_experts}};
}

int64_t capacity(const MoeMlp& layer, int64_t tokens) {
    const auto chosen = static_cast<double>(tokens * layer.routing.experts_per_token);
    return static_cast<int64_t>(
        std::ceil(layer.capacity_factor * chosen / static_cast<double>(layer.num_experts())));
}

// Complements the experts of choices that are dropped.
void drop_beyond(int64_t capacity, const MoeMlp& layer, int64_t tokens, const Choices& choices) {
    const int64_t per_token = layer.routing.experts_per_token;
    std::vector<int64_t> taken(static_cast<size_t>(layer.num_experts()));
    for (int64_t choice = 0; choice < per_token; ++choice) {
        for (int64_t token = 0; token < tokens; ++token) {
            int32_t& expert = choices.experts[token * per_token + choice];
            if (++taken[static_cast<size_t>(expert)] > capacity) expert = ~expert;
        }
    }
}

void count(std::span<const int32_t> experts, ExpertCounts& counts) {
    for (const int32_t expert : experts) {
        const bool is_dropped = expert < 0;
        counts.dropped += is_dropped;
        ++counts.chosen[static_cast<size_t>(is_dropped ? ~expert : expert)];
    }
}

}  // namespace

ConstTensorView normed(const Context& context, const std::optional<Norm>& norm,
                       const ConstTensorView& x) {
    if (!norm) return x;
    const TensorView out = take_activations(context, {x.dim(0), x.dim(1)});
    norm->apply(context, x, out);
    return out;
}

TensorView router_logits(const Context& context, const MoeMlp& layer, const ConstTensorView& x) {
    const TensorView logits = take_values(context, DType::f32, {x.dim(0), layer.router.out()});
    const ScratchArena::Scope scope(*context.scratch);
    layer.router.apply(context, normed(context, layer.router_norm, x), ops::MatmulOutput::overwrite,
                       logits);
    return logits;
}

Choices route(const Context& context, const MoeMlp& layer, const ConstTensorView& x) {
    const int64_t tokens = x.dim(0);
    const int64_t per_token = layer.routing.experts_per_token;
    const int64_t num_experts = layer.num_experts();
    const auto chosen = static_cast<size_t>(tokens * per_token);
    ScratchArena& host = host_scratch(context);
    const Choices choices{host.take_array<int32_t>(chosen), host.take_array<float>(chosen)};
    const ScratchArena::Scope scope(*context.scratch);
    const ScratchArena::Scope host_scope(host);
    const TensorView logits = logits_for_host(context, layer, x);
    if (context.is_dry_run()) return choices;
    context.threads->parallel_for(tokens, kRowGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t token = begin; token < end; ++token) {
            const std::span<float> row(logits.as<float>() + token * num_experts,
                                       static_cast<size_t>(num_experts));
            choose_experts(layer.routing, row, choices.experts + token * per_token,
                           choices.weights + token * per_token);
        }
    });
    return choices;
}

// With a capacity the rows of other ranks count as well.
Choices choose(const Context& context, const MoeMlp& layer, const ConstTensorView& x,
               const RankSlice& own) {
    const int64_t per_token = layer.routing.experts_per_token;
    const bool is_limited = layer.capacity_factor > 0.0;
    Choices choices = route(context, layer, is_limited ? x : x.rows(own.first, own.count));
    if (context.is_dry_run()) return choices;
    if (is_limited) {
        drop_beyond(capacity(layer, x.dim(0)), layer, x.dim(0), choices);
        choices.experts += own.first * per_token;
        choices.weights += own.first * per_token;
    }
    if (layer.counts != nullptr) {
        count({choices.experts, static_cast<size_t>(own.count * per_token)}, *layer.counts);
    }
    return choices;
}

TokensByExpert sort_by_expert(const Context& context, const MoeMlp& layer, int64_t tokens,
                              const Choices& choices) {
    const auto num_experts = static_cast<size_t>(layer.num_experts());
    const auto chosen = static_cast<size_t>(tokens * layer.routing.experts_per_token);
    ScratchArena& host = host_scratch(context);
    const TokensByExpert sorted{host.take_array<int32_t>(num_experts + 1),
                                host.take_array<int32_t>(chosen), host.take_array<float>(chosen)};
    if (context.is_dry_run()) return sorted;
    std::fill_n(sorted.starts, num_experts + 1, 0);
    for (size_t i = 0; i < chosen; ++i) {
        if (choices.experts[i] >= 0) ++sorted.starts[choices.experts[i]];
    }
    // Each start first points behind its run, and moves to its front as the run is filled from
    // behind.
    for (size_t expert = 1; expert <= num_experts; ++expert) {
        sorted.starts[expert] += sorted.starts[expert - 1];
    }
    for (size_t i = chosen; i-- > 0;) {
        if (choices.experts[i] < 0) continue;
        const int32_t index = --sorted.starts[choices.experts[i]];
        sorted.rows[index] =
            static_cast<int32_t>(i / static_cast<size_t>(layer.routing.experts_per_token));
        sorted.weights[index] = choices.weights[i];
    }
    return sorted;
}

}  // namespace nvllm
