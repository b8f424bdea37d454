// The rules of the step-time target.
#include "lib/schedule/step_time.h"

#include <algorithm>

namespace nvllm {
namespace {

constexpr double kSlowCut = 0.8;
constexpr double kFastRaise = 1.1;
constexpr double kMemoryCut = 0.75;
constexpr double kFragmentationCut = 0.9;
constexpr double kDrift = 0.02;
// A condition that lasts cuts again after so many steps.
constexpr int kStepsBetweenCuts = 16;
// A step that did not use its budget says nothing about a larger one.
constexpr double kUsedShare = 0.8;

}  // namespace

StepTimeController::StepTimeController(const StepTimeConfig& config)
    : config_(config), budget_(config.most_tokens) {}

void StepTimeController::change(double factor) {
    const double before = budget_;
    budget_ = std::clamp(budget_ * factor, static_cast<double>(config_.min_tokens),
                         static_cast<double>(config_.most_tokens));
    if (factor < 1.0 - kDrift) ++num_cuts_;
    if (factor > 1.0 + kDrift && budget_ > before) ++num_raises_;
    if (factor < 1.0 - kDrift || factor > 1.0 + kDrift) num_unchecked_ = 1;
}

// When a condition begins, and now and then while it lasts.
bool StepTimeController::is_scarce(bool low, bool& was_low, int& steps_low) {
    const bool begins = low && !was_low;
    was_low = low;
    steps_low = low && !begins ? steps_low + 1 : 0;
    return begins || (low && steps_low % kStepsBetweenCuts == 0);
}

void StepTimeController::observe(const StepObservation& step) {
    if (config_.target_ms <= 0.0) return;
    if (is_scarce(step.free_memory_share < config_.low_memory_share, was_low_on_memory_,
                  steps_low_on_memory_)) {
        change(kMemoryCut);
        return;
    }
    if (is_scarce(step.fragmentation > config_.high_fragmentation, was_fragmented_,
                  steps_fragmented_)) {
        change(kFragmentationCut);
        return;
    }
    if (num_unchecked_ > 0) {
        --num_unchecked_;
        return;
    }
    const double share = step.step_ms / config_.target_ms;
    const bool used = step.num_tokens >= kUsedShare * budget_;
    if (share > kSlowStep) {
        change(kSlowCut);
    } else if (!used) {
        return;
    } else if (share < kFastStep) {
        change(kFastRaise);
    } else {
        change(std::clamp(1.0 / share, 1.0 - kDrift, 1.0 + kDrift));
    }
}

}  // namespace nvllm
