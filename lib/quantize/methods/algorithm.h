// The methods that decide over one matrix: a table of what each needs and does.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "kernels/context.h"
#include "lib/model/weights/quantized_matrix.h"

namespace nvllm::quantize {

// Of every `of` values along a row so many are zeros; of 0: no such structure.
struct MaskStructure {
    int64_t zeros = 0;
    int64_t of = 0;
    bool operator==(const MaskStructure&) const = default;
};

struct SolverOptions {
    int64_t block_size = 128;      // columns that are decided before the rest is told
    double dampening_frac = 0.01;  // of the mean second moment, added to the diagonal
    double sparsity = 0.5;         // share of zeros, where there is no structure
    MaskStructure mask;
    bool operator==(const SolverOptions&) const = default;
};

// One matrix and what is known of its inputs.
struct LinearProblem {
    const Context& context;
    // float32 [out, in]; becomes what will be multiplied with.
    TensorView weight;
    // float32 [in, in]: the sum of x x^T over `num_tokens` inputs; no data when the method needs
    // none.
    ConstTensorView gram;
    int64_t num_tokens = 0;
    const QuantizationArguments* arguments = nullptr;  // null: not quantized
    DType scale_type = DType::f32;                     // as MatrixQuantizer
    float largest = 0.0f;                              // alike
    bool keeps_zeros = false;                          // zeros of the weight stay zeros
    SolverOptions options = {};
};

struct LinearSolution {
    std::optional<QuantizedMatrix> matrix;  // empty: pruned only
    double dampening = 0.0;                 // that it took, as a share of the mean second moment
};

struct Solver {
    const char* name;  // "gptq"
    bool needs_gram;
    bool quantizes;  // needs arguments
    bool prunes;     // and takes them if there are any
    LinearSolution (*solve)(const LinearProblem& problem);
};

std::span<const Solver> solvers();
// Null when there is none.
const Solver* find_solver(std::string_view name);

LinearSolution solve_round_to_nearest(const LinearProblem& problem);
LinearSolution solve_gptq(const LinearProblem& problem);
LinearSolution solve_sparsegpt(const LinearProblem& problem);
LinearSolution solve_magnitude(const LinearProblem& problem);

// |(kept - original) x|^2 summed over all inputs, from their second moments, and the same of
// |original x|^2. Their quotient is the relative error of the linear's output.
struct OutputError {
    double error = 0.0;
    double original = 0.0;
    double relative() const { return original > 0.0 ? error / original : 0.0; }
};
OutputError output_error(const Context& context, const ConstTensorView& original,
                         const ConstTensorView& kept, const ConstTensorView& gram);

}  // namespace nvllm::quantize
