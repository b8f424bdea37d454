// Counts, and draws the conclusions.
#include "lib/engine/loop/step_faults.h"

#include <algorithm>
#include <cmath>

namespace nvllm {
namespace {

constexpr double kMinShare = 0.1;

}  // namespace

void StepFaults::note_out_of_memory() {
    ++counts.out_of_memory;
    counts.last_out_of_memory = std::chrono::steady_clock::now();
    share_ = std::max(kMinShare, share_ * kOutOfMemoryCut);
    steps_until_raise_ = kStepsOfCut;
}

std::vector<SequenceId> StepFaults::note_failed(const BatchPlan& plan) {
    ++counts.step_faults;
    std::vector<SequenceId> given_up;
    for (const PlanEntry& entry : plan.entries) {
        if (++lost_[entry.sequence] < kMaxFailedSteps) continue;
        given_up.push_back(entry.sequence);
        lost_.erase(entry.sequence);
    }
    return given_up;
}

namespace {

bool came_to_something(const SequenceStep& step) {
    return !step.token_ids.empty() || !step.candidates.empty() || !step.embedding.empty();
}

}  // namespace

void StepFaults::note_done(const StepResult& result) {
    if (share_ < 1.0 && --steps_until_raise_ <= 0) {
        share_ = std::min(1.0, share_ / kOutOfMemoryCut);
        steps_until_raise_ = kStepsOfCut;
    }
    count_rows(result);
    if (lost_.empty()) return;
    for (const SequenceStep& step : result.sequences) {
        // A chunk of a prompt proves nothing: the step that failed may still lie ahead.
        if (came_to_something(step)) lost_.erase(step.sequence);
    }
}

void StepFaults::count_rows(const StepResult& result) {
    int nonfinite = 0;
    bool any_valid = false;
    for (const SequenceStep& step : result.sequences) {
        nonfinite += step.fault && step.fault->kind == ErrorKind::internal;
        any_valid = any_valid || came_to_something(step);
    }
    counts.nonfinite_rows += nonfinite;
    nonfinite_in_a_row_ = any_valid ? 0 : nonfinite_in_a_row_ + nonfinite;
    may_reload_ = may_reload_ || any_valid;
}

bool StepFaults::takes_reload() {
    if (!may_reload_ || nonfinite_in_a_row_ <= kMaxNonfiniteInARow) return false;
    may_reload_ = false;
    nonfinite_in_a_row_ = 0;
    ++counts.weight_reloads;
    return true;
}

PlanLimits StepFaults::limits(const std::function<bool(SequenceId)>& lives) {
    PlanLimits limits;
    if (share_ < 1.0) {
        limits.max_tokens = std::max(1, static_cast<int32_t>(std::lround(share_ * max_tokens_)));
    }
    std::erase_if(lost_, [&](const auto& one) { return !lives(one.first); });
    for (const auto& [sequence, times] : lost_) {
        if (times != kMaxFailedSteps - 1) continue;
        limits.alone = sequence;
        break;
    }
    return limits;
}

}  // namespace nvllm
