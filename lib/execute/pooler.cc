// Rows of hidden states to the pooling states of their sequences.
#include "lib/execute/pooler.h"

#include <algorithm>

#include "kernels/context.h"

namespace nvllm {

void Pooler::pool(const ForwardContext& batch, const TensorView& hidden, const BatchPlan& plan,
                  WorkerSequences& sequences, StepResult& result) {
    int64_t row = 0;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        const PlanEntry& entry = plan.entries[i];
        WorkerSequence& sequence = sequences.at(entry.sequence);
        if (sequence.pooling && !sequence.refusal) {
            pool_rows(batch, hidden.rows(row, entry.count), entry, *sequence.pooling,
                      result.sequences[i]);
        }
        row += entry.count;
    }
}

ConstTensorView Pooler::values(const ForwardContext& batch, PooledValues values,
                               const TensorView& hidden) {
    const Context& context = *batch.context;
    if (values == PooledValues::tokens) return host_.fetch(context, model_.head(batch, hidden));
    const ConstTensorView last = model_.last_hidden(batch, hidden);
    if (values == PooledValues::hidden) return host_.fetch(context, last);
    return host_.fetch(context, model_.classify(batch, last));
}

void Pooler::pool_rows(const ForwardContext& batch, const TensorView& hidden,
                       const PlanEntry& entry, PoolingState& pooling, SequenceStep& step) {
    const bool ends = entry.output == OutputKind::pooled;
    const PoolingState::Run wanted = pooling.wanted(entry.first, entry.count, ends);
    for (int64_t done = 0; done < wanted.count; done += max_rows_) {
        const ScratchArena::Scope scope(*batch.context->scratch);
        const int64_t count = std::min(max_rows_, wanted.count - done);
        pooling.add(
            values(batch, pooling.params().values, hidden.rows(wanted.first + done, count)));
    }
    if (!ends) return;
    Result<std::vector<float>> vector = pooling.finish();
    if (vector) {
        step.embedding = std::move(*vector);
    } else {
        step.fault = vector.fault();
    }
}

}  // namespace nvllm
