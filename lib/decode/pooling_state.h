// From rows of values to the pooled vector of one sequence, over all steps of its prompt.
//
// Rows are summed in the order of their positions, in float32: the vector does not depend on the
// chunks of the prompt. One state a sequence; one thread at a time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/view.h"
#include "lib/base/result.h"
#include "lib/request/pooling_params.h"

namespace nvllm {

class PoolingState {
  public:
    explicit PoolingState(PoolingParams params) : params_(std::move(params)) {}

    const PoolingParams& params() const { return params_; }

    // A range of positions, relative to the first of the step.
    struct Run {
        int64_t first = 0;
        int64_t count = 0;
    };
    // The range of positions that are read, of `count` from `first_position` on. `ends`: the last
    // of them is the prompt's last.
    Run wanted(int32_t first_position, int32_t count, bool ends) const;

    // Adds rows float32 [rows, width] of wanted positions: hidden states, values of classes, or
    // logits of the whole vocabulary. REQUIRES: positions come in order.
    void add(const ConstTensorView& rows);

    // The mean of all rows that were added. REQUIRES: the last step of the prompt was added; called
    // once.
    std::vector<float> mean();
    // What the parameters make of that mean, or of what was computed of it; a fault (internal) if a
    // value is NaN or infinite.
    Result<std::vector<float>> finish(std::vector<float> vector) const;
    Result<std::vector<float>> finish() { return finish(mean()); }

  private:
    PoolingParams params_;
    std::vector<float> sum_;
    int64_t num_rows_ = 0;
};

}  // namespace nvllm
