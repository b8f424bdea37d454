// One rank's compute: keeps what it was told of each sequence, carries out plans, answers with
// numbers.
//
// Single-threaded towards its caller; inside, ops and sampling use the thread pool. It never
// decides anything about requests: that is the scheduler's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/context.h"
#include "lib/decode/pooling_state.h"
#include "lib/decode/sampler.h"
#include "lib/execute/batch_builder.h"
#include "lib/execute/kv_storage.h"
#include "lib/model/model.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"

namespace nvllm {

struct WorkerConfig {
    int32_t block_size = 16;
    std::vector<int32_t> num_blocks;       // per cache group
    std::vector<int32_t> num_host_blocks;  // the same for swapped-out sequences; empty: none
    int32_t max_num_batched_tokens = 512;
    int32_t max_num_seqs = 128;
    DType kv_dtype = DType::f32;
};

class Worker {
  public:
    // Reserves key-value blocks and scratch for the largest step. `threads` outlives the worker.
    Worker(std::unique_ptr<Model> model, const WorkerConfig& config, ThreadPool& threads);

    // REQUIRES: plans come in the order of their numbers and name only sequences that were added.
    StepResult execute(const BatchPlan& plan);

    // Forgets every sequence; the next plan adds those that live on.
    void reset();

    const Model& model() const { return *model_; }
    const KvStorage& kv_storage() const { return kv_; }
    const ScratchArena& scratch() const { return scratch_; }

    // Rows of logits that exist at one time at most; with it, Model::scratch_bytes() gives what the
    // largest step takes.
    static int64_t most_logit_rows(int32_t max_num_seqs);

  private:
    struct SequenceState {
        std::vector<int32_t> token_ids;
        std::vector<std::vector<int32_t>> block_tables;
        SequenceSamplingState sampling;
        int32_t num_prompt_tokens = 0;
        std::optional<PoolingState> pooling;
    };

    // What a row of logits is for.
    struct LogitRow {
        size_t entry = 0;
        // The prompt token it predicts, as a place in the step's prompt_logprobs; empty: sample.
        std::optional<size_t> prompt_logprob;
        int32_t num_candidates = 0;  // not zero: report these instead of sampling
    };

    // Copies blocks as the plan says; measures what goes between device and host.
    void move_blocks(const Context& context, const BatchPlan& plan, StepResult& result);
    void update_sequences(const BatchPlan& plan);
    void add(const AddedSequence& added);
    // Hidden states after the last block: float32 [tokens, hidden] in scratch.
    TensorView run_blocks(const ForwardContext& batch);
    int32_t num_prompt_logprobs(const PlanEntry& entry) const;
    void list_rows(const BatchPlan& plan, StepResult& result);
    // Gathers the hidden states of sequences that are pooled; their vectors where their prompts
    // end.
    void pool(const ForwardContext& batch, const TensorView& hidden, const BatchPlan& plan,
              StepResult& result);
    // `hidden`: the entry's rows.
    void pool_rows(const ForwardContext& batch, const TensorView& hidden, const PlanEntry& entry,
                   SequenceStep& step);
    // Samples from, or scores with, all rows that want logits, a bounded number at a time.
    void use_logits(const ForwardContext& batch, const TensorView& hidden, StepResult& result);
    // What tests asked for at the fault point of rows.
    void accept_tokens(const StepResult& result);
    void pretend_faults(const TensorView& logits, int64_t first, const StepResult& result);
    std::optional<Fault> use_row(const LogitRow& row, std::span<float> logits,
                                 SamplerScratch& scratch, SequenceStep& step);
    std::optional<Fault> sample_row(std::span<float> logits, SamplerScratch& scratch,
                                    SequenceStep& step);

    std::unique_ptr<Model> model_;
    ThreadPool& threads_;
    int64_t rows_at_once_;
    ScratchArena scratch_;
    KvStorage kv_;
    BatchBuilder builder_;
    std::unordered_map<SequenceId, SequenceState> sequences_;
    std::vector<BatchRow> rows_;
    std::vector<LogitRow> logit_rows_;
    std::vector<std::optional<Fault>> row_faults_;  // of logit_rows_
    std::vector<SamplerScratch> sampler_scratch_;   // one a thread
};

}  // namespace nvllm
