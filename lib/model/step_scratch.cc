// Batches of views without memory.
#include "lib/model/step_scratch.h"

#include <algorithm>

#include "kernels/host/dry_run.h"
#include "lib/model/dry_batch.h"
#include "lib/model/forward_pass.h"
#include "lib/model/lora/lora_batch.h"

namespace nvllm {
namespace {

// One of each kind: they are used one after another.
std::vector<LoraTable> largest_tables(const Model& model, const DryRun& dry, bool has_adapters) {
    if (!has_adapters) return {};
    const ConstTensorView table =
        dry.view(DType::f32, {model.config().vocab_size, model.config().hidden_size});
    return {{LoraTable::Kind::head, 1, table}, {LoraTable::Kind::embedding, 1, table}};
}

void run(Model& model, const DryRun& dry, const LargestStep& step, int64_t tokens,
         const RowsUse& use) {
    const int64_t rows = std::min(step.rows, tokens);
    const std::vector<LoraTable> tables = largest_tables(model, dry, !step.lora.empty());
    const LoraBatch adapters{dry.view(DType::i32, {tokens}), step.lora, tables};
    Context context = dry.context();
    if (!step.lora.empty()) context.lora = &adapters;
    const DryBatch made(model.kv_groups(), dry, context, tokens);
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView hidden = run_blocks(model, made.batch());
    {
        const ScratchArena::Scope inner(*context.scratch);
        const ConstTensorView last = model.last_hidden(made.batch(), hidden.rows(0, rows));
        if (use.hidden) use.hidden(context, last);
        if (!model.config().labels.empty()) {
            const TensorView values = model.classify(made.batch(), last);
            if (use.hidden) use.hidden(context, values);
        }
    }
    if (!model.config().generates) return;
    const ConstTensorView indices = dry.view(DType::i32, {rows});
    const TensorView logits = run_head(model, made.batch(), hidden, indices, indices);
    if (use.logits) use.logits(context, logits);
}

}  // namespace

// Kernels for few rows may take more for each, so that smaller steps are asked as well.
size_t step_scratch_bytes(Model& model, const LargestStep& step, const RowsUse& use) {
    const DryRun dry(step.device, step.activations, step.num_threads);
    for (int64_t tokens = step.tokens; tokens > 0; tokens /= 2) {
        run(model, dry, step, tokens, use);
    }
    return dry.scratch_bytes();
}

}  // namespace nvllm
