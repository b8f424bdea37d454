// The table of methods, and the criterion that all of them are judged by.
#include "lib/quantize/methods/algorithm.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "kernels/ops/matmul.h"
#include "lib/model/layers/scratch.h"

namespace nvllm::quantize {
namespace {

constexpr std::array<Solver, 4> kSolvers = {{
    {"rtn", false, true, false, solve_round_to_nearest},
    {"gptq", true, true, false, solve_gptq},
    {"sparsegpt", true, false, true, solve_sparsegpt},
    {"magnitude", false, false, true, solve_magnitude},
}};

// Rows of second moments that are multiplied with at one time.
constexpr int64_t kMomentBand = 256;
constexpr int64_t kRowsPerRange = 8;

// Rows first to first + count of a symmetric matrix as far as they lie below its diagonal, and that
// diagonal: what lies above it counts there.
void take_lower_band(const Context& context, const ConstTensorView& gram, int64_t first,
                     const TensorView& band) {
    const int64_t width = band.dim(1);
    context.threads->parallel_for(band.dim(0), kRowsPerRange, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t diagonal = first + i;
            const float* const source = gram.as<float>() + diagonal * gram.dim(1);
            float* const target = band.as<float>() + i * width;
            for (int64_t column = 0; column < diagonal; ++column) {
                target[column] = 2.0f * source[column];
            }
            target[diagonal] = source[diagonal];
            std::fill(target + diagonal + 1, target + width, 0.0f);
        }
    });
}

// The sum of row gram row^T over all rows.
double weighted_square(const Context& context, const TensorView& rows,
                       const ConstTensorView& gram) {
    const int64_t size = gram.dim(0);
    std::vector<double> sums(static_cast<size_t>(rows.dim(0)));
    for (int64_t first = 0; first < size; first += kMomentBand) {
        const ScratchArena::Scope scope(*context.scratch);
        const int64_t count = std::min(kMomentBand, size - first);
        const int64_t width = first + count;
        const TensorView band = take_values(context, DType::f32, {count, width});
        take_lower_band(context, gram, first, band);
        const TensorView product = take_values(context, DType::f32, {rows.dim(0), count});
        ops::matmul(context, rows.columns(0, width), band, {}, DType::f32,
                    ops::MatmulOutput::overwrite, product);
        context.threads->parallel_for(
            rows.dim(0), kRowsPerRange, [&](int64_t begin, int64_t end, int) {
                for (int64_t row = begin; row < end; ++row) {
                    const float* const values = rows.as<float>() + row * size + first;
                    const float* const products = product.as<float>() + row * count;
                    double sum = 0.0;
                    for (int64_t i = 0; i < count; ++i) {
                        sum += static_cast<double>(values[i]) * products[i];
                    }
                    sums[static_cast<size_t>(row)] += sum;
                }
            });
    }
    return std::accumulate(sums.begin(), sums.end(), 0.0);
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
