// Round to nearest: scales from the weights alone.
#include "kernels/context.h"
#include "lib/quantize/methods/algorithm.h"

namespace nvllm::quantize {

LinearSolution solve_round_to_nearest(const LinearProblem& problem) {
    ThreadPool& threads = *problem.context.threads;
    LinearSolution solution;
    solution.matrix = round_to_nearest(problem.weight, *problem.arguments, problem.scale_type,
                                       threads, problem.largest);
    dequantize(*solution.matrix, threads, problem.weight);
    return solution;
}

}  // namespace nvllm::quantize
