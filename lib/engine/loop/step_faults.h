// Decisions after failed steps: which sequences are retried together, which alone, and which end;
// when steps become smaller; when the weights are read again.
//
// A failed step does not show which of its sequences was the cause. The first time all are retried
// together. A sequence that fails twice without a token in between is retried alone: a sequence
// that fails then is the cause, and the others continue.
//
// Owned by the engine thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "lib/engine/loop/health.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"
#include "lib/schedule/scheduler.h"

namespace nvllm {

// Failed steps in a row of one sequence after which it ends.
inline constexpr int kMaxFailedSteps = 3;
// Sequences in a row with logits that are not numbers; with more, the weights count as damaged.
inline constexpr int kMaxNonfiniteInARow = 3;
// The share of a step's tokens that remains after a step ran out of memory, and the steps after
// which the share rises again.
inline constexpr double kOutOfMemoryCut = 0.7;
inline constexpr int kStepsOfCut = 64;

class StepFaults {
  public:
    explicit StepFaults(int32_t most_tokens) : max_tokens_(most_tokens) {}

    // A step failed. Returns the sequences that have to end.
    std::vector<SequenceId> note_failed(const BatchPlan& plan);
    // The step ran out of memory: steps become smaller for a while.
    void note_out_of_memory();
    // A step was done.
    void note_done(const StepResult& result);

    // The limits of the next plan. `lives`: whether a sequence has not ended yet.
    PlanLimits limits(const std::function<bool(SequenceId)>& lives);

    // True once each time that the weights have to be read again; not again before a sequence had
    // logits that are numbers.
    bool takes_reload();

    FaultCounts counts;

  private:
    void count_rows(const StepResult& result);

    int32_t max_tokens_;              // of the configuration
    std::map<SequenceId, int> lost_;  // steps that failed since the sequence's last token
    double share_ = 1.0;              // of max_tokens_
    int steps_until_raise_ = 0;
    int nonfinite_in_a_row_ = 0;
    bool may_reload_ = true;
};

}  // namespace nvllm
