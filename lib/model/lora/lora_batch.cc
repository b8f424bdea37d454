// Two ops a linear; tables one after another, as few adapters have any.
#include "lib/model/lora/lora_batch.h"

#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {
namespace {

const ops::LoraLinear* linear_of(const Context& context, int32_t target) {
    if (context.lora == nullptr || target < 0) return nullptr;
    const ops::LoraLinear& linear = context.lora->linears[static_cast<size_t>(target)];
    return linear.pairs == nullptr ? nullptr : &linear;
}

TensorView take_inner(const Context& context, int64_t rows, const ops::LoraLinear& linear) {
    return take_values(context, DType::f32, {rows, linear.parts, linear.max_rank});
}

// The same bits as one column of float32: rows are copied and nothing is computed.
ConstTensorView as_floats(const ConstTensorView& slots) {
    return {slots.data, DType::f32, {slots.dim(0), 1}, slots.device};
}

}  // namespace

GatheredAdapters::GatheredAdapters(const Context& context, const ConstTensorView& rows)
    : context_(context) {
    if (context.lora == nullptr) return;
    lora_ = *context.lora;
    const TensorView slots = take_values(context, DType::i32, {rows.dim(0)});
    ops::gather_rows(context, as_floats(lora_.slots), rows,
                     {slots.data, DType::f32, {slots.dim(0), 1}, slots.device});
    lora_.slots = slots;
    context_.lora = &lora_;
}

void add_adapters(const Context& context, int32_t target, const ConstTensorView& x,
                  const TensorView& y) {
    const ops::LoraLinear* const linear = linear_of(context, target);
    if (linear == nullptr) return;
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView inner = take_inner(context, x.dim(0), *linear);
    ops::lora_shrink(context, x, context.lora->slots, *linear, inner);
    ops::lora_expand(context, inner, context.lora->slots, *linear, y);
}

void add_expert_adapters(const Context& context, int32_t target, int64_t num_experts,
                         const ConstTensorView& slots, const ConstTensorView& x,
                         const TensorView& y) {
    const ops::LoraLinear* const all = linear_of(context, target);
    if (all == nullptr) return;
    const ops::LoraLinear linear{all->pairs, all->slots * num_experts, all->parts / num_experts,
                                 all->max_rank};
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView inner = take_inner(context, x.dim(0), linear);
    ops::lora_shrink(context, x, slots, linear, inner);
    ops::lora_expand(context, inner, slots, linear, y);
}

void replace_head(const Context& context, const ConstTensorView& x, const TensorView& y) {
    if (context.lora == nullptr) return;
    for (const LoraTable& table : context.lora->tables) {
        if (table.kind != LoraTable::Kind::head) continue;
        const ScratchArena::Scope scope(*context.scratch);
        const TensorView logits = take_values(context, DType::f32, {y.dim(0), y.dim(1)});
        // In a dry run the table is that of all ranks together.
        ops::matmul(context, x, table.values.rows(0, y.dim(1)), {}, context.lora->compute_type,
                    ops::MatmulOutput::overwrite, logits);
        ops::lora_select(context, logits, context.lora->slots, table.slot, y);
    }
}

void adapt_embedding(const Context& context, int32_t target, const ConstTensorView& token_ids,
                     float scale, const TensorView& y) {
    if (context.lora == nullptr) return;
    for (const LoraTable& table : context.lora->tables) {
        if (table.kind != LoraTable::Kind::embedding) continue;
        const ScratchArena::Scope scope(*context.scratch);
        const TensorView own = take_activations(context, {y.dim(0), y.dim(1)});
        ops::embedding(context, table.values, token_ids, scale, own);
        ops::lora_select(context, own, context.lora->slots, table.slot, y);
    }
    const ops::LoraLinear* const linear = linear_of(context, target);
    if (linear == nullptr) return;
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView inner = take_inner(context, y.dim(0), *linear);
    for (const LoraTable& table : context.lora->tables) {
        if (table.kind != LoraTable::Kind::embedding_a) continue;
        const ScratchArena::Scope scope_of_table(*context.scratch);
        const int64_t rank = table.values.dim(1);
        const TensorView own = take_values(context, DType::f32, {y.dim(0), rank});
        ops::embedding(context, table.values, token_ids, table.scale * scale, own);
        const TensorView to = inner.reshaped({y.dim(0), linear->max_rank}).columns(0, rank);
        ops::lora_select(context, own, context.lora->slots, table.slot, to);
    }
    ops::lora_expand(context, inner, context.lora->slots, *linear, y);
}

}  // namespace nvllm
