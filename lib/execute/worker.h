// One rank's compute: keeps what it was told of each sequence, carries out plans, answers with
// numbers.
//
// Single-threaded towards its caller; inside, ops and sampling use the thread pool. It never
// decides anything about requests: that is the scheduler's.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/context.h"
#include "lib/decode/device_sampler.h"
#include "lib/decode/pooling_state.h"
#include "lib/decode/sampler.h"
#include "lib/execute/batch_builder.h"
#include "lib/execute/graph_cache.h"
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
    DType activations = DType::f32;  // activation_type()
    bool batch_invariant = false;    // on a device; the CPU always is
    int32_t max_graph_rows = 0;      // steps of so many sequences run as graphs; 0: none do
};

class Worker {
  public:
    // Reserves key-value blocks and scratch for the largest step. `threads` outlives the worker.
    // `device`: the one that the model's weights lie on.
    Worker(std::unique_ptr<Model> model, const WorkerConfig& config, ThreadPool& threads,
           const ComputeDevice& device = {});
    ~Worker();

    // Puts a step into the device's stream; on the CPU it is done on return. REQUIRES: plans come
    // in the order of their numbers and name only sequences that were added; of the tokens that
    // steps in flight choose, this one computes only those that the device chooses. Any number of
    // steps may be in flight.
    void begin(const BatchPlan& plan);
    // Waits for the oldest step that was begun. What of it went wrong is thrown here at the latest.
    StepResult finish();
    // Both.
    StepResult execute(const BatchPlan& plan) {
        begin(plan);
        return finish();
    }

    // Forgets every sequence, and steps that were not finished; the next plan adds those that live
    // on.
    void reset();

    const Model& model() const { return *model_; }
    const KvStorage& kv_storage() const { return kv_; }
    const ScratchArena& scratch() const { return scratch_; }

    // Rows of logits that exist at one time at most; with it, Model::scratch_bytes() gives what the
    // largest step takes, but for what the choice of tokens on a device takes beside it.
    static int64_t max_logit_rows(int32_t max_num_seqs);
    static size_t sampling_scratch_bytes(bool on_cpu, int32_t max_num_seqs, int64_t vocab_size);

  private:
    struct SequenceState {
        std::vector<int32_t> token_ids;
        std::vector<std::vector<int32_t>> block_tables;
        SequenceSamplingState sampling;
        int32_t num_prompt_tokens = 0;
        int32_t rope_choice = 0;
        std::optional<PoolingState> pooling;
        bool chooses_on_device = false;  // its next tokens
        // Tokens that steps under way choose, and where the device leaves the last of them.
        int32_t num_expected = 0;
        const std::byte* expected_token = nullptr;
    };

    // What a row of logits is for.
    struct LogitRow {
        size_t entry = 0;
        // The prompt token it predicts, as a place in the step's prompt_logprobs; empty: sample.
        std::optional<size_t> prompt_logprob;
        int32_t num_candidates = 0;  // not zero: report these instead of sampling
        bool on_device = false;      // sampled there; before all that are not
    };

    // A step that was begun and not finished.
    struct StepUnderWay {
        explicit StepUnderWay(const ComputeDevice& device) : sampler(device), done(device) {}

        StepResult result;
        std::vector<LogitRow> logit_rows;
        std::vector<std::optional<Fault>> row_faults;  // of logit_rows
        DeviceSampler sampler;
        Event done;
    };

    // The front of `free_`, emptied.
    StepUnderWay& next_step();
    void list_sequences(const BatchPlan& plan);
    // Expected tokens from where they were chosen to where the batch wants them.
    void gather_expected(const ForwardContext& batch, const BatchPlan& plan);
    // From here on the tokens that the device chooses are expected.
    void expect_tokens(const Context& context, StepUnderWay& step);
    // Copies blocks as the plan says; measures what goes between device and host.
    void move_blocks(const Context& context, const BatchPlan& plan, StepResult& result);
    void update_sequences(const BatchPlan& plan);
    void add(const AddedSequence& added);
    // What a step has whose sequences compute one token each is filled up to a graph's shape.
    std::optional<GraphShape> graph_shape(const BatchPlan& plan) const;
    void fill_up_rows(int32_t wanted);
    void note_graphs(const GraphCounts& before, DeviceCounts& counts) const;
    ComputedStep compute(const ForwardContext& batch, const std::optional<GraphShape>& shape);
    // Hidden states after the last block: float32 [tokens, hidden] in scratch.
    TensorView run_blocks(const ForwardContext& batch);
    // Logits of the rows in `places`, a bounded number: float32 in scratch.
    TensorView run_head(const ForwardContext& batch, const TensorView& hidden,
                        const ConstTensorView& places);
    int32_t num_prompt_logprobs(const PlanEntry& entry) const;
    void list_rows(const BatchPlan& plan, StepUnderWay& step);
    // Gathers the hidden states of sequences that are pooled; their vectors where their prompts
    // end.
    void pool(const ForwardContext& batch, const TensorView& hidden, const BatchPlan& plan,
              StepResult& result);
    // `hidden`: the entry's rows.
    void pool_rows(const ForwardContext& batch, const TensorView& hidden, const PlanEntry& entry,
                   SequenceStep& step);
    // Samples from, or scores with, all rows that want logits, a bounded number at a time.
    void use_logits(const ForwardContext& batch, const ComputedStep& computed, StepUnderWay& step);
    // `begin`: the first of `logits` among all rows.
    void use_on_device(const Context& context, const TensorView& logits, size_t begin,
                       StepUnderWay& step);
    void use_on_host(const Context& context, const TensorView& logits, size_t begin,
                     StepUnderWay& step);
    // What the device chose, when it has.
    void take_device_results(StepUnderWay& step);
    void accept_tokens(const StepResult& result);
    // What tests asked for at the fault point of rows.
    void pretend_faults(const Context& context, const TensorView& logits, size_t begin,
                        const StepUnderWay& step);
    std::optional<Fault> use_row(const LogitRow& row, std::span<float> logits,
                                 SamplerScratch& scratch, SequenceStep& step);
    std::optional<Fault> sample_row(std::span<float> logits, SamplerScratch& scratch,
                                    SequenceStep& step);

    Context make_context();
    // Rows that ops computed, float32 where the host reads them: until the next such call, on a
    // device. Waits for them.
    ConstTensorView fetch(const Context& context, const ConstTensorView& rows);

    std::unique_ptr<Model> model_;
    ThreadPool& threads_;
    ComputeDevice device_;
    Stream queue_;
    DType activations_;
    int64_t rows_at_once_;
    ScratchArena scratch_;
    ScratchArena host_scratch_;  // beside a device's
    DeviceMemory fetched_;       // pinned; empty on the CPU
    size_t fetched_bytes_ = 0;
    KvStorage kv_;
    BatchBuilder builder_;
    std::unordered_map<SequenceId, SequenceState> sequences_;
    std::vector<BatchRow> rows_;
    std::vector<SamplerScratch> sampler_scratch_;  // one a thread
    bool device_chooses_ = false;
    std::vector<const SequenceSamplingState*> states_;  // of rows of a call
    std::vector<uint8_t> expecting_;                    // alike
    size_t num_growths_ = 0;                            // of scratch, when a step was begun last
    int32_t max_graph_rows_;
    std::optional<GraphCache> graphs_;  // where steps may run as graphs
    // What fills steps up: a sequence of one token in a block that nobody has.
    std::vector<int32_t> filler_token_ids_ = {0};
    std::vector<std::vector<int32_t>> filler_tables_;
    std::deque<std::unique_ptr<StepUnderWay>> in_flight_;  // oldest first
    std::deque<std::unique_ptr<StepUnderWay>> free_;       // kept for their memory
};

}  // namespace nvllm
