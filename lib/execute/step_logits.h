// Uses the logits of a step: samples tokens on the host or on the device, verifies drafts, scores
// prompt tokens, finds candidates.
//
// A draft is accepted while it equals the token that is chosen at its position, with the counted
// random number of that position: the tokens are those of a run without drafts. Of a tree the path
// goes on with the draft that equals the choice, if there is one.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/context.h"
#include "lib/decode/sampler.h"
#include "lib/execute/host_rows.h"
#include "lib/execute/model_runner.h"
#include "lib/execute/plan_extras.h"
#include "lib/execute/step_in_flight.h"
#include "lib/execute/worker_sequences.h"

namespace nvllm {

class StepLogits {
  public:
    // All but `device` outlive it.
    StepLogits(const ComputeDevice& device, ThreadPool& threads, WorkerSequences& sequences,
               ModelRunner& runner, HostRows& host);

    // Uses all rows that want logits, a bounded number at a time. Host rows are done on return;
    // device rows when the stream comes to the end of what is put into it. The next step may then
    // name the tokens that the device chooses. REQUIRES: the runner computed this plan last;
    // step.result has a SequenceStep for each entry.
    void use(const ForwardContext& batch, const ComputedStep& computed, const BatchPlan& plan,
             const PlanExtras& extras, StepInFlight& step);
    // The same rows of logits for a rank that chooses by them; nothing of them is used here.
    void compute(const ForwardContext& batch, const ComputedStep& computed, const BatchPlan& plan,
                 const PlanExtras& extras, StepInFlight& step);
    // Completes step.result. REQUIRES: the stream has come to the end of use().
    void finish(StepInFlight& step);

  private:
    // The sampling of an entry's draft rows on the host, across chunks of rows.
    struct PathState {
        SequenceSamplingState state;  // with the accepted drafts
        DraftPath* path = nullptr;
    };

    // Calls use(logits, index of the first of their rows, whether the device samples them) for a
    // bounded number of the step's rows at a time.
    template <typename Use>
    void for_each_chunk(const ForwardContext& batch, const ComputedStep& computed,
                        const StepInFlight& step, Use&& use);
    void list_rows(const BatchPlan& plan, const PlanExtras& extras, StepInFlight& step);
    void list_last_rows(size_t entry, const PlanEntry& planned, const PlanExtras& extras,
                        StepInFlight& step);
    const WorkerSequence& sequence_of(const StepInFlight& step, const LogitRow& row) const;
    // `begin`: index of the first of `logits` among all rows.
    void use_on_device(const Context& context, const PlanExtras& extras, const TensorView& logits,
                       size_t begin, StepInFlight& step);
    void use_on_host(const Context& context, const PlanExtras& extras, const TensorView& logits,
                     size_t begin, StepInFlight& step);
    std::optional<Fault> use_row(const LogitRow& row, const PlanExtras& extras,
                                 std::span<float> logits, SamplerScratch& scratch,
                                 SequenceStep& step);
    std::optional<Fault> sample_row(const LogitRow& row, const PlanExtras& extras,
                                    std::span<float> logits, SamplerScratch& scratch,
                                    SequenceStep& step);
    // Makes the tokens that the device chooses available to the next steps.
    void expect_tokens(const Context& context, StepInFlight& step);
    void take_device_results(StepInFlight& step);
    // Writes what the test's fault point asks for into the logits.
    void inject_faults(const Context& context, const TensorView& logits, size_t begin,
                       const StepInFlight& step);

    ComputeDevice device_;
    ThreadPool& threads_;
    WorkerSequences& sequences_;
    ModelRunner& runner_;
    HostRows& host_;
    std::vector<SamplerScratch> sampler_scratch_;           // one a thread
    std::unordered_map<size_t, PathState> states_on_path_;  // by entry, of the step begun last
    std::vector<size_t> run_starts_;                        // of rows that one thread uses
    std::vector<const SequenceSamplingState*> states_;      // of rows of a call
    std::vector<uint8_t> expecting_;                        // of the same rows
    std::vector<std::span<const uint32_t>> token_masks_;    // of the same rows
};

}  // namespace nvllm
