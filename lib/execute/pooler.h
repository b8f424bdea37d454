// Embeddings and scores: gathers the hidden states of pooled sequences, or what the model's heads
// make of them, and returns a vector where a prompt ends.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/view.h"
#include "lib/execute/host_rows.h"
#include "lib/execute/worker_sequences.h"
#include "lib/model/dense_modules.h"
#include "lib/model/model.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"

namespace nvllm {

class Pooler {
  public:
    // Reads at most `max_rows` rows at a time. The model and `host` outlive it. `dense`: linears of
    // pooled hidden states.
    Pooler(Model& model, HostRows& host, int64_t max_rows, DenseModules dense = {})
        : model_(model), host_(host), max_rows_(max_rows), dense_(std::move(dense)) {}

    // hidden [tokens, hidden]: rows of all entries, in their order. Sets the embedding or the fault
    // of entries with OutputKind::pooled.
    void pool(const ForwardContext& batch, const TensorView& hidden, const BatchPlan& plan,
              WorkerSequences& sequences, StepResult& result);

  private:
    // `hidden`: rows of the batch, of which the entry's begin at `first_row`.
    void pool_rows(const ForwardContext& batch, const TensorView& hidden, int64_t first_row,
                   const PlanEntry& entry, PoolingState& pooling, SequenceStep& step);

    // What the vector is made of, on the host. Rows of scratch. `hidden`: from `row` of the batch
    // on.
    ConstTensorView values(const ForwardContext& batch, const PoolingParams& params,
                           const TensorView& hidden, int64_t row);

    // What is made of the mean of these values, before it is cut and normalised.
    std::vector<float> computed_of(const ForwardContext& batch, const PoolingParams& params,
                                   std::vector<float> mean);
    // The values of classes of one row of hidden states.
    std::vector<float> classes_of(const ForwardContext& batch, const std::vector<float>& row);

    Model& model_;
    HostRows& host_;
    int64_t max_rows_;
    DenseModules dense_;
};

}  // namespace nvllm
