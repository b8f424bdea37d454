// Routing by the host, row by row.
#include "lib/model/layers/expert_choices.h"

#include <algorithm>
#include <span>

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

TokensByExpert sort_by_expert(const Context& context, const MoeMlp& layer, int64_t tokens,
                              const Choices& choices) {
    const auto num_experts = static_cast<size_t>(layer.num_experts());
    const auto chosen = static_cast<size_t>(tokens * layer.routing.experts_per_token);
    ScratchArena& host = host_scratch(context);
    const TokensByExpert sorted{host.take_array<int32_t>(num_experts + 1),
                                host.take_array<int32_t>(chosen), host.take_array<float>(chosen)};
    if (context.is_dry_run()) return sorted;
    std::fill_n(sorted.starts, num_experts + 1, 0);
    for (size_t i = 0; i < chosen; ++i) ++sorted.starts[choices.experts[i]];
    // Each start first points behind its run, and moves to its front as the run is filled from
    // behind.
    for (size_t expert = 1; expert <= num_experts; ++expert) {
        sorted.starts[expert] += sorted.starts[expert - 1];
    }
    for (size_t i = chosen; i-- > 0;) {
        const int32_t index = --sorted.starts[choices.experts[i]];
        sorted.rows[index] =
            static_cast<int32_t>(i / static_cast<size_t>(layer.routing.experts_per_token));
        sorted.weights[index] = choices.weights[i];
    }
    return sorted;
}

}  // namespace nvllm
