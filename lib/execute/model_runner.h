// Runs the model over a plan: lays out the batch, computes hidden states and logits, as a graph of
// the device where it can.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/execute/adapters/adapter_store.h"
#include "lib/execute/batch_builder.h"
#include "lib/execute/graph_cache.h"
#include "lib/execute/plan_extras.h"
#include "lib/execute/worker_config.h"
#include "lib/execute/worker_sequences.h"
#include "lib/model/lora/lora_batch.h"
#include "lib/model/model.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"

namespace nvllm {

class ModelRunner {
  public:
    // The model outlives it, and `adapters`; null: there are none. `max_logit_rows`: rows that
    // head() computes at a time, at most.
    ModelRunner(Model& model, const WorkerConfig& config, int64_t max_logit_rows,
                const ComputeDevice& device, const AdapterStore* adapters = nullptr);

    // The batch of a plan whose sequences are up to date. Token ids that steps in flight choose are
    // copied within the device. Its context is the given one with the rows' adapters. Valid until
    // the next call. `kv`: storage of the layers.
    ForwardContext lay_out(const Context& context, const BatchPlan& plan, const PlanExtras& extras,
                           const WorkerSequences& sequences, std::span<const KvLayer> kv);
    // What lay_out() made of each entry of the plan.
    std::span<const BatchRow> rows() const { return std::span(rows_).first(num_entries_); }

    // Hidden states of all tokens, float32 [tokens, hidden] in scratch; logits as well where a
    // graph computed them. Counts graphs in `counts`. REQUIRES: the batch was laid out last.
    ComputedStep forward(const ForwardContext& batch, DeviceCounts& counts);
    // Logits [count, vocab] of `count` of the rows that want them, from `first` on; float32 in
    // scratch unless `computed` has them. REQUIRES: count <= max_logit_rows.
    TensorView logits(const ForwardContext& batch, const ComputedStep& computed, int64_t first,
                      int64_t count);
    int64_t max_logit_rows() const { return max_logit_rows_; }

    // Prepares for so many steps in flight.
    void expect_steps(size_t count) { builder_.keep_staging_buffers(count + 1); }

  private:
    void add_rows(const BatchPlan& plan, const PlanExtras& extras,
                  const WorkerSequences& sequences);
    // The shape of the graph that can compute the rows; empty: none can.
    std::optional<GraphShape> graph_shape() const;
    void add_filler_rows(int32_t total);
    void collect_adapters();
    // The batch's context, where a row has an adapter.
    void add_adapters(ForwardContext& batch);
    // Copies expected tokens from where they were chosen to the batch's token ids.
    void gather_expected(const ForwardContext& batch, const BatchPlan& plan,
                         const WorkerSequences& sequences);

    Model& model_;
    ComputeDevice device_;
    int64_t max_logit_rows_;
    int32_t max_graph_rows_;
    BatchBuilder builder_;
    std::vector<BatchRow> rows_;  // of entries, then filler
    size_t num_entries_ = 0;
    std::optional<GraphCache> graphs_;  // where steps may run as graphs
    std::optional<GraphShape> shape_;   // of the batch that was laid out last
    // Fills steps up to a graph's shape: a sequence of one token, in a block of its own.
    std::vector<int32_t> filler_token_ids_ = {0};
    std::vector<std::vector<int32_t>> filler_tables_;
    const AdapterStore* adapters_;
    LoraBatch lora_;                     // of the batch that was laid out last
    std::vector<int32_t> slots_in_use_;  // of the same
    std::vector<LoraTable> lora_tables_;
    Context context_;  // the same
};

}  // namespace nvllm
