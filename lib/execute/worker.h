// One rank's compute: keeps what it was told of each sequence, carries out plans, answers with
// numbers.
//
// Single-threaded towards its caller; inside, ops and sampling use the thread pool. It never
// decides anything about requests: that is the scheduler's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/context.h"
#include "lib/decode/sampler.h"
#include "lib/execute/batch_builder.h"
#include "lib/execute/kv_storage.h"
#include "lib/model/model.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"

namespace nvllm {

struct WorkerConfig {
    int32_t block_size = 16;
    std::vector<int32_t> num_blocks;  // per cache group
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
    };

    void update_sequences(const BatchPlan& plan);
    void add(const AddedSequence& added);
    // Hidden states after the last block: float32 [tokens, hidden] in scratch.
    TensorView run_blocks(const ForwardContext& batch);
    // Samples for every entry that wants it, a bounded number of logit rows at a time.
    void sample_entries(const BatchPlan& plan, const ForwardContext& batch,
                        const TensorView& hidden, StepResult& result);
    void sample_row(SequenceId sequence, std::span<float> logits, SamplerScratch& scratch,
                    SequenceStep& step);

    std::unique_ptr<Model> model_;
    ThreadPool& threads_;
    ScratchArena scratch_;
    KvStorage kv_;
    BatchBuilder builder_;
    std::unordered_map<SequenceId, SequenceState> sequences_;
    std::vector<BatchRow> rows_;
    std::vector<size_t> sampled_entries_;
    std::vector<SamplerScratch> sampler_scratch_;  // one a thread
};

}  // namespace nvllm
