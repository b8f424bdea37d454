// Checks that a result from another process belongs to its plan.
#pragma once

#include <cstdint>

#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"

namespace nvllm {

// Throws bad_data when the result is not of this plan, or has tokens that there are not.
void check_step_result(const BatchPlan& plan, const StepResult& result, int32_t vocab_size);

}  // namespace nvllm
