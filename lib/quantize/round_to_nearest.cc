// Round to nearest: scales from the weights alone.
#include "lib/quantize/algorithm.h"
#include "lib/quantize/matrix_quantizer.h"

namespace nvllm::quantize {

LinearSolution solve_round_to_nearest(const LinearProblem& problem) {
    MatrixQuantizer quantizer(*problem.arguments, problem.weight.dim(0), problem.weight.dim(1),
                              problem.scale_type,
                              std::max(problem.largest, largest_magnitude(problem.weight)));
    LinearSolution solution;
    solution.matrix = round_matrix(problem.context, std::move(quantizer), problem.weight);
    return solution;
}

}  // namespace nvllm::quantize
