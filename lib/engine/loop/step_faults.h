// What follows from steps that failed: who is tried again, who alone, who is given up; when steps
// become smaller; when weights are to be read again.
//
// A step that fails says nothing about which of its sequences was the cause. The first time all are
// tried again together. Those that fail twice without a token in between are tried one after the
// other with nobody beside them: whoever fails then is the cause, and the others go on.
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

// Steps of a sequence that may fail, none of its tokens coming out in between.
inline constexpr int kMaxFailedSteps = 3;
// Sequences in a row whose logits are not numbers, before weights are taken to be damaged.
inline constexpr int kMaxNonfiniteInARow = 3;
// What remains of the tokens of a step when memory did not suffice, and the steps after which the
// cut is taken back.
inline constexpr double kOutOfMemoryCut = 0.7;
inline constexpr int kStepsOfCut = 64;

class StepFaults {
  public:
    explicit StepFaults(int32_t most_tokens) : max_tokens_(most_tokens) {}

    // A step came to nothing. Returns the sequences to be given up.
    std::vector<SequenceId> note_failed(const BatchPlan& plan);
    // That was for want of memory: steps become smaller for a while.
    void note_out_of_memory();
    // A step was done.
    void note_done(const StepResult& result);

    // What the next plan has to keep to. `lives`: whether a sequence has not ended yet.
    PlanLimits limits(const std::function<bool(SequenceId)>& lives);

    // Once for each time that weights are to be read again: not a second time before a row was
    // well.
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
