// The table of methods, and the criterion that all of them are judged by.
#include "lib/quantize/algorithm.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/ops/matmul.h"
#include "kernels/thread_pool.h"

namespace nvllm::quantize {
namespace {

constexpr std::array<Solver, 4> kSolvers = {{
    {"rtn", false, true, false, solve_round_to_nearest},
    {"gptq", true, true, false, solve_gptq},
    {"sparsegpt", true, false, true, solve_sparsegpt},
    {"magnitude", false, false, true, solve_magnitude},
}};

// Rows whose products with the second moments exist at one time.
constexpr int64_t kRows = 256;

// The sum of row times (row times gram), over all rows, in their order.
double weighted_square(const Context& context, const TensorView& rows,
                       const ConstTensorView& gram) {
    double sum = 0.0;
    for (int64_t first = 0; first < rows.dim(0); first += kRows) {
        const ScratchArena::Scope scope(*context.scratch);
        const int64_t count = std::min(kRows, rows.dim(0) - first);
        const TensorView part = rows.rows(first, count);
        const auto size = static_cast<size_t>(part.numel());
        const TensorView product(context.scratch->take_array<float>(size), DType::f32,
                                 {count, part.dim(1)});
        ops::matmul(context, part, gram, {}, DType::f32, ops::MatmulOutput::overwrite, product);
        for (size_t i = 0; i < size; ++i) {
            sum += static_cast<double>(part.as<float>()[i]) * product.as<float>()[i];
        }
    }
    return sum;
}

}  // namespace

std::span<const Solver> solvers() { return kSolvers; }

const Solver* find_solver(std::string_view name) {
    const auto found = std::find_if(kSolvers.begin(), kSolvers.end(),
                                    [&](const Solver& solver) { return solver.name == name; });
    return found == kSolvers.end() ? nullptr : &*found;
}

OutputError output_error(const Context& context, const ConstTensorView& original,
                         const ConstTensorView& kept, const ConstTensorView& gram) {
    const ScratchArena::Scope scope(*context.scratch);
    const auto size = static_cast<size_t>(original.numel());
    const TensorView rows(context.scratch->take_array<float>(size), DType::f32,
                          {original.dim(0), original.dim(1)});
    std::copy_n(original.as<float>(), size, rows.as<float>());
    OutputError result;
    result.original = weighted_square(context, rows, gram);
    for (size_t i = 0; i < size; ++i) rows.as<float>()[i] -= kept.as<float>()[i];
    result.error = std::max(0.0, weighted_square(context, rows, gram));
    return result;
}

}  // namespace nvllm::quantize
