// What it costs to swap a sequence, and what to compute it again.
#pragma once

#include <cstdint>

#include "lib/schedule/step_time.h"

namespace nvllm {

// The costs on this machine: estimates at first, then moving averages of measurements.
class PreemptionCosts {
  public:
    void observe(const StepObservation& step) {
        if (step.swapped_bytes > 0 && step.swap_ms > 0.0) {
            approach(bytes_per_ms_, static_cast<double>(step.swapped_bytes) / step.swap_ms);
        }
        // A step with mostly prefill tokens measures the time of one.
        if (2 * step.num_prefill_tokens > step.num_tokens) {
            approach(prefill_ms_per_token_, step.step_ms / step.num_tokens);
        }
    }
    // Whether copying `bytes` out and in again takes less time than computing the tokens.
    bool swap_is_faster(uint64_t bytes, int32_t num_tokens) const {
        return 2.0 * static_cast<double>(bytes) / bytes_per_ms_ <
               prefill_ms_per_token_ * num_tokens;
    }

  private:
    static void approach(double& value, double measured) { value += 0.25 * (measured - value); }

    double bytes_per_ms_ = 2e6;  // 2 GB/s
    double prefill_ms_per_token_ = 1.0;
};

}  // namespace nvllm
