// Rows of hidden states to the pooling states of their sequences.
#include "lib/execute/pooler.h"

#include <algorithm>

#include "kernels/context.h"
#include "kernels/ops/elementwise.h"
#include "lib/model/forward_pass.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {

void Pooler::pool(const ForwardContext& batch, const TensorView& hidden, const BatchPlan& plan,
                  WorkerSequences& sequences, StepResult& result) {
    int64_t row = 0;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        const PlanEntry& entry = plan.entries[i];
        WorkerSequence& sequence = sequences.at(entry.sequence);
        if (sequence.pooling && !sequence.refusal) {
            pool_rows(batch, hidden, row, entry, *sequence.pooling, result.sequences[i]);
        }
        row += entry.count;
    }
}

ConstTensorView Pooler::values(const ForwardContext& batch, const PoolingParams& params,
                               const TensorView& hidden, int64_t row) {
    const Context& context = *batch.context;
    if (params.values == PooledValues::tokens) {
        const ConstTensorView& adapters = batch.rows.adapters;
        return host_.fetch(
            context,
            head_of_rows(model_, batch, hidden,
                         adapters.data == nullptr ? adapters : adapters.rows(row, hidden.dim(0))));
    }
    const ConstTensorView last = model_.last_hidden(batch, hidden);
    const bool is_of_hidden = params.values == PooledValues::hidden || params.classifies_mean();
    return host_.fetch(context, is_of_hidden ? last : model_.classify(batch, last));
}

std::vector<float> Pooler::computed_of(const ForwardContext& batch, const PoolingParams& params,
                                       std::vector<float> mean) {
    if (params.classifies_mean()) return classes_of(batch, mean);
    if (params.values == PooledValues::hidden) dense_.apply(*batch.context, mean);
    return mean;
}

std::vector<float> Pooler::classes_of(const ForwardContext& batch, const std::vector<float>& row) {
    const Context& context = *batch.context;
    const ScratchArena::Scope scope(*context.scratch);
    const auto width = static_cast<int64_t>(row.size());
    const TensorView copy = take_values(context, DType::f32, {1, width});
    ComputeDevice(context).copy_in(context.stream, copy.data, row.data(),
                                   row.size() * sizeof(float));
    TensorView hidden = copy;
    if (context.activations != DType::f32) {
        hidden = take_activations(context, {1, width});
        ops::convert(context, copy, hidden);
    }
    const ConstTensorView classes = host_.fetch(context, model_.classify(batch, hidden));
    return {classes.as<float>(), classes.as<float>() + classes.numel()};
}

void Pooler::pool_rows(const ForwardContext& batch, const TensorView& hidden, int64_t first_row,
                       const PlanEntry& entry, PoolingState& pooling, SequenceStep& step) {
    const bool ends = entry.output == OutputKind::pooled;
    const PoolingState::Run wanted = pooling.wanted(entry.first, entry.count, ends);
    for (int64_t done = 0; done < wanted.count; done += max_rows_) {
        const ScratchArena::Scope scope(*batch.context->scratch);
        const int64_t count = std::min(max_rows_, wanted.count - done);
        const int64_t row = first_row + wanted.first + done;
        pooling.add(values(batch, pooling.params(), hidden.rows(row, count), row));
    }
    if (!ends) return;
    Result<std::vector<float>> vector =
        pooling.finish(computed_of(batch, pooling.params(), pooling.mean()));
    if (vector) {
        step.embedding = std::move(*vector);
    } else {
        step.fault = vector.fault();
    }
}

}  // namespace nvllm
