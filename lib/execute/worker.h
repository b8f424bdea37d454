// One rank's compute: knows the sequences, carries out plans, returns numbers.
//
// Single-threaded towards its caller; inside, ops and sampling use the thread pool. It decides
// nothing about requests: that is the scheduler's. Its parts: WorkerSequences (what is known),
// ModelRunner (batch and model), StepLogits (tokens), Pooler (vectors), KvStorage (blocks),
// DraftRunner (tokens that are proposed for the next step), DraftStates (states behind drafts).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "kernels/context.h"
#include "lib/execute/adapters/adapter_store.h"
#include "lib/execute/draft_states.h"
#include "lib/execute/host_rows.h"
#include "lib/execute/kv_storage.h"
#include "lib/execute/model_runner.h"
#include "lib/execute/pooler.h"
#include "lib/execute/propose/draft_runner.h"
#include "lib/execute/ranks/expert_use.h"
#include "lib/execute/step_in_flight.h"
#include "lib/execute/step_logits.h"
#include "lib/execute/tiers/block_files.h"
#include "lib/execute/worker_config.h"
#include "lib/execute/worker_sequences.h"
#include "lib/model/model.h"
#include "lib/model/step_scratch.h"
#include "lib/parallel/rank_groups.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"

namespace nvllm {

// Which rank of several a worker is.
struct RankRole {
    std::unique_ptr<RankGroups> groups;  // null: it is alone
    bool chooses = true;                 // tokens; the other ranks are told of them by settle()
    bool is_last_stage = true;
};

class Worker {
  public:
    // Reserves key-value blocks and scratch for the largest step. `threads` outlives the worker.
    // `device`: the one that the model's weights are on. `proposer`: proposes
    // tokens to each sequence that wants some, in that shape and on the CPU; null: none do.
    // `dense`: linears of pooled hidden states. `targets`: the model's linears that adapters may
    // change; null: none may.
    Worker(std::unique_ptr<Model> model, const WorkerConfig& config, ThreadPool& threads,
           const ComputeDevice& device = {}, std::unique_ptr<ModelProposer> proposer = nullptr,
           DraftShape drafts = {}, DenseModules dense = {}, RankRole role = {},
           std::unique_ptr<const LoraTargets> targets = nullptr);
    ~Worker();

    // Puts a step into the device's stream; on the CPU it is done on return. REQUIRES: plans come
    // in the order of their numbers and name only sequences that were added; of the tokens that
    // steps in flight choose, this one computes only those that the device chooses, and none of
    // entries with drafts. Any number of steps may be in flight.
    void begin(const BatchPlan& plan);
    // Waits for the oldest step in flight. Its faults are thrown here at the latest.
    StepResult finish();
    // What the choosing rank's finish() gave for the oldest step that was not settled. REQUIRES:
    // this rank does not choose; its own finish() of the step was called.
    void settle(const StepResult& result);
    // Both.
    StepResult execute(const BatchPlan& plan) {
        begin(plan);
        return finish();
    }

    // A step in which ranks of other replicas compute, with experts that are here. The result says
    // nothing. REQUIRES: no step is in flight.
    StepResult take_part();

    // Forgets every sequence and the steps in flight; the next plan adds the active sequences.
    void reset();

    const Model& model() const { return *model_; }
    const KvStorage& kv_storage() const { return kv_; }
    const ScratchArena& scratch() const { return scratch_; }

    // Rows of logits that exist at one time at most.
    static int64_t max_logit_rows(int32_t max_num_seqs);
    // What the largest step takes of scratch, pooling and sampling on a device included. The
    // model's weights may have no values.
    static size_t scratch_bytes(Model& model, const LargestStep& step);

  private:
    // Bytes that this rank has sent to others since it was made.
    std::chrono::nanoseconds time_with_others() const {
        return role_.groups == nullptr ? std::chrono::nanoseconds() : role_.groups->time_spent();
    }
    uint64_t bytes_sent() const { return role_.groups == nullptr ? 0 : role_.groups->bytes_sent(); }
    // The front of `free_`, emptied.
    StepInFlight& next_step();
    Context make_context();
    // Keys and values of accepted drafts go to the slots of their positions. `rows`: of the
    // accepted drafts, as DraftPath has them.
    void move_accepted(const Context& context, const PlanEntry& entry, int32_t num_drafts,
                       std::span<const int32_t> rows);
    // What the plan says of adapters; those of its new sequences are there afterwards.
    void prepare_adapters(const BatchPlan& plan, StepResult& result);
    void move_files(const BatchPlan& plan, StepResult& result);
    void compute(const Context& context, const BatchPlan& plan, const PlanExtras& extras,
                 StepInFlight& step);

    RankRole role_;  // outlives what its groups compute
    std::unique_ptr<Model> model_;
    ThreadPool& threads_;
    ComputeDevice device_;
    Stream stream_;
    DType activations_;
    int32_t block_size_;
    ScratchArena scratch_;
    ScratchArena host_scratch_;  // in addition to a device's
    size_t num_growths_ = 0;     // of scratch, when a step was begun last
    KvStorage kv_;
    std::unique_ptr<AdapterStore> adapters_;  // null: there are none
    std::unique_ptr<BlockFiles> files_;       // null: there is no disk tier
    WorkerSequences sequences_;
    ModelRunner runner_;
    HostRows host_;
    Pooler pooler_;
    StepLogits logits_;
    std::optional<DraftStates> states_;  // where drafts may be over states
    std::optional<DraftRunner> drafts_;
    std::deque<std::unique_ptr<StepInFlight>> in_flight_;  // oldest first
    std::deque<std::unique_ptr<StepInFlight>> free_;       // kept for their memory
    uint64_t counted_bytes_ = 0;                           // of bytes_sent(), in results
    ExpertUse expert_use_;
    std::deque<BatchPlan> unsettled_;  // with drafts, of a rank that does not choose
};

}  // namespace nvllm
