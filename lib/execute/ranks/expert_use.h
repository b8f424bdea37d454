// What steps have counted of a model's experts, from result to result.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/model/model.h"
#include "lib/request/step_result.h"

namespace nvllm {

class ExpertUse {
  public:
    // Not `reports_load`: dropped choices alone.
    explicit ExpertUse(bool reports_load) : reports_load_(reports_load) {}

    // What was counted since the last call.
    void report(const Model& model, StepResult& result);

  private:
    bool reports_load_;
    int64_t dropped_ = 0;                       // that were reported
    std::vector<std::vector<int64_t>> tokens_;  // alike, by layer
};

}  // namespace nvllm
