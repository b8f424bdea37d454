// Column after column is decided, and what that does wrong is made up for by those not yet decided:
// the procedure that GPTQ and SparseGPT share (Frantar et al. 2022; Hassibi and Stork 1992).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/quantize/methods/algorithm.h"

namespace nvllm::quantize {

// What becomes of each value. Positions count columns in the order they are decided in.
class ColumnRule {
  public:
    virtual ~ColumnRule() = default;
    // Before the columns [first, first + count) are decided; weights float32 [out, in] so far.
    virtual void begin_block(int64_t first, int64_t count, const ConstTensorView& weights);
    // What is kept of row[position]. Values of the row from `position` to the block's end are as
    // all decisions so far have left them. Called for different rows by different threads, for one
    // row in ascending order.
    virtual float keep(int64_t row_index, int64_t position, const float* row) = 0;
};

// Second moments as the procedure uses them.
struct InverseFactor {
    Tensor upper;                // U with (gram / tokens + dampening)^-1 = U^T U: float32 [in, in]
    double dampening = 0.0;      // share of the mean diagonal that it took
    std::vector<int32_t> order;  // column at each position; empty: as they are
};

// Dead inputs (second moment 0) count as independent of all others, and their weights become 0. A
// matrix that is not positive definite gets ten times the dampening, again and again. `descending`:
// columns are decided by descending second moment.
InverseFactor factor_moments(const LinearProblem& problem, bool descending);

// Decides all columns of weight[out, in] (in the order of positions), `block_size` at a time.
void fit_columns(const Context& context, const TensorView& weight, const ConstTensorView& upper,
                 int64_t block_size, ColumnRule& rule);

// weight's columns in the given order, and back.
void permute_columns(const Context& context, const TensorView& weight,
                     std::span<const int32_t> order);
void unpermute_columns(const Context& context, const TensorView& weight,
                       std::span<const int32_t> order);

}  // namespace nvllm::quantize
