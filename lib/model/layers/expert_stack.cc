// Ops over all experts at once, and how their matrices come together.
#include "lib/model/layers/expert_stack.h"

#include <algorithm>

#include "kernels/ops/backend_ops.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/moe.h"
#include "lib/model/lora/lora_batch.h"
#include "lib/model/lora/lora_targets.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {
namespace {

bool has_ops(const BackendOps& ops) {
    return ops.route != nullptr && ops.sort_by_expert != nullptr && ops.grouped_matmul != nullptr &&
           ops.add_expert_outputs != nullptr;
}

// The rows of `expert` from `first` on, as a matrix.
TensorView part_of(const TensorView& stack, int64_t expert, int64_t first, int64_t rows) {
    const auto offset = static_cast<size_t>(expert * stack.stride(0) + first * stack.stride(1));
    return {stack.as<std::byte>() + offset * dtype_bytes(stack.dtype),
            stack.dtype,
            {rows, stack.dim(2)},
            stack.device};
}

void place(WeightSource& source, const LinearSpec& linear, int64_t expert, int64_t first,
           const Tensor& stack) {
    const TensorView to = source.has_values()
                              ? part_of(stack.mutable_view(), expert, first, linear.out)
                              : TensorView();
    source.read_matrix_into(linear.name + ".weight", {linear.out, linear.in}, linear.slice(), to);
}

// The slots of the choices' tokens and experts; without data where no row has an adapter.
ConstTensorView expert_slots(const Context& context, const TensorView& experts,
                             const TensorView& order, int64_t num_experts) {
    if (context.lora == nullptr) return {};
    const TensorView slots = take_values(context, DType::i32, {order.dim(0)});
    ops::lora_expert_slots(context, context.lora->slots, experts, order, num_experts, slots);
    return slots;
}

}  // namespace

bool can_stack(const WeightSource& source, std::span<const ExpertLinears> experts) {
    if (source.device().is_cpu() || !has_ops(*source.device().backend()->ops) ||
        std::ssize(experts) > ops::kMaxExperts) {
        return false;
    }
    return std::all_of(experts.begin(), experts.end(), [&](const ExpertLinears& expert) {
        const auto is_plain = [&](const LinearSpec& linear) {
            return !linear.bias && is_dense(source, linear);
        };
        return is_plain(expert.gate) && is_plain(expert.up) && is_plain(expert.down);
    });
}

ExpertStack load_expert_stack(WeightSource& source, std::span<const ExpertLinears> experts,
                              MlpFunction activation) {
    const int64_t hidden = experts.front().gate.in;
    const int64_t inner = experts.front().gate.out;
    ExpertStack stack;
    stack.activation = activation;
    stack.compute_type = source.compute_type();
    stack.in = source.allocate_placed({std::ssize(experts), 2 * inner, hidden});
    stack.down = source.allocate_placed({std::ssize(experts), hidden, inner});
    for (size_t i = 0; i < experts.size(); ++i) {
        const auto expert = static_cast<int64_t>(i);
        place(source, experts[i].gate, expert, 0, stack.in);
        place(source, experts[i].up, expert, inner, stack.in);
        place(source, experts[i].down, expert, 0, stack.down);
    }
    if (LoraTargets* const targets = source.lora_targets()) {
        std::vector<std::vector<LinearSpec>> ins, downs;
        for (const ExpertLinears& expert : experts) {
            ins.push_back({expert.gate, expert.up});
            downs.push_back({expert.down});
        }
        stack.in_target = targets->add_experts(ins);
        stack.down_target = targets->add_experts(downs);
    }
    return stack;
}

void ExpertStack::apply(const Context& context, const ConstTensorView& logits,
                        const Routing& routing, const ConstTensorView& x, ops::MatmulOutput how,
                        const TensorView& y) const {
    const int64_t tokens = x.dim(0);
    const int64_t chosen = tokens * routing.experts_per_token;
    const TensorView experts =
        take_values(context, DType::i32, {tokens, routing.experts_per_token});
    const TensorView weights =
        take_values(context, DType::f32, {tokens, routing.experts_per_token});
    const TensorView starts = take_values(context, DType::i32, {logits.dim(1) + 1});
    const TensorView order = take_values(context, DType::i32, {chosen});
    const TensorView rows = take_values(context, DType::i32, {chosen});
    ops::route(context, logits, routing.normalize_weights, experts, weights);
    ops::sort_by_expert(context, experts, starts, order, rows);

    const TensorView gathered = take_activations(context, {chosen, x.dim(1)});
    ops::gather_rows(context, x, rows, gathered);
    const int64_t width = in.view().dim(1);
    const TensorView inner = take_activations(context, {chosen, width});
    ops::grouped_matmul(context, gathered, starts, in.view(), compute_type, inner);
    const ConstTensorView slots = expert_slots(context, experts, order, num_experts());
    add_expert_adapters(context, in_target, num_experts(), slots, gathered, inner);
    const TensorView gate = inner.columns(0, width / 2);
    activation.apply_gated(context, gate, inner.columns(width / 2, width / 2));
    // What was gathered is not needed any more.
    ops::grouped_matmul(context, gate, starts, down.view(), compute_type, gathered);
    add_expert_adapters(context, down_target, num_experts(), slots, gate, gathered);
    ops::add_expert_outputs(context, gathered, order, weights, how, y);
}

}  // namespace nvllm
