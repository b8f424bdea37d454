// From rows of hidden states to the pooled vector of one sequence, gathered over its steps.
//
// Rows are added up in the order of their positions, in float32: the vector is the same however the
// prompt was cut. Each sequence has its own; one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/view.h"
#include "lib/base/result.h"
#include "lib/request/pooling_params.h"

namespace nvllm {

class PoolingState {
  public:
    explicit PoolingState(const PoolingParams& params) : params_(params) {}

    // A run of positions, counted from the step's first.
    struct Run {
        int64_t first = 0;
        int64_t count = 0;
    };
    // Of the `count` positions from `first_position` on, those that are read. `ends`: the last of
    // them is the prompt's last.
    Run wanted(int32_t first_position, int32_t count, bool ends) const;

    // Adds rows float32 [rows, hidden] of wanted positions. REQUIRES: positions come in order.
    void add(const ConstTensorView& rows);

    // The vector; a fault when it has a value that is no number. REQUIRES: the prompt's last step
    // was added.
    Result<std::vector<float>> finish();

  private:
    PoolingParams params_;
    std::vector<float> sum_;
    int64_t num_rows_ = 0;
};

}  // namespace nvllm
