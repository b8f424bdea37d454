// Batches of views without memory.
#include "lib/model/step_scratch.h"

#include <algorithm>

#include "kernels/host/dry_run.h"
#include "lib/model/dry_batch.h"
#include "lib/model/forward_pass.h"

namespace nvllm {
namespace {

void run(Model& model, const DryRun& dry, int64_t tokens, int64_t rows, const RowsUse& use) {
    const Context& context = dry.context();
    const DryBatch made(model.kv_groups(), dry, tokens);
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
    const TensorView logits = run_head(model, made.batch(), hidden, dry.view(DType::i32, {rows}));
    if (use.logits) use.logits(context, logits);
}

}  // namespace

// Kernels for few rows may take more for each, so that smaller steps are asked as well.
size_t step_scratch_bytes(Model& model, const LargestStep& step, const RowsUse& use) {
    const DryRun dry(step.device, step.activations, step.num_threads);
    for (int64_t tokens = step.tokens; tokens > 0; tokens /= 2) {
        run(model, dry, tokens, std::min(step.rows, tokens), use);
    }
    return dry.scratch_bytes();
}

}  // namespace nvllm
