// Blocks of columns: within one each row by itself, behind it one product for all rows.
#include "lib/quantize/methods/obs_column_update.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/error.h"
#include "kernels/host/thread_pool.h"
#include "kernels/ops/linalg.h"
#include "kernels/ops/matmul.h"
#include "lib/model/layers/scratch.h"

namespace nvllm::quantize {
namespace {

constexpr int64_t kUpdatedRowGrain = 8;
constexpr double kMoreDampening = 10.0;
constexpr double kMaxDampening = 1e6;

TensorView take(const Context& context, int64_t rows, int64_t columns) {
    return take_values(context, DType::f32, {rows, columns});
}

struct Block {
    int64_t first = 0;
    int64_t count = 0;
    const float* upper = nullptr;  // [count, count], of the diagonal
    float* errors = nullptr;       // [out, count]: what is to be taken off behind the block
};

void decide_row(const Block& block, int64_t row_index, float* row, ColumnRule& rule) {
    float* const errors = block.errors + row_index * block.count;
    for (int64_t j = 0; j < block.count; ++j) {
        const float* const upper = block.upper + j * block.count;
        float* const values = row + block.first;
        const float kept = rule.keep(row_index, block.first + j, row);
        const float error = (values[j] - kept) / upper[j];
        values[j] = kept;
        for (int64_t k = j + 1; k < block.count; ++k) values[k] -= error * upper[k];
        errors[j] = -error;
    }
}

// weight[:, behind] += errors U[block, behind]
void tell_columns_behind(const Context& context, const TensorView& weight,
                         const ConstTensorView& upper, const Block& block) {
    const int64_t behind = block.first + block.count;
    const int64_t columns = weight.dim(1) - behind;
    if (columns == 0) return;
    const TensorView turned = take(context, columns, block.count);
    for (int64_t row = 0; row < block.count; ++row) {
        const float* const source = upper.as<float>() + (block.first + row) * upper.dim(1) + behind;
        for (int64_t column = 0; column < columns; ++column) {
            turned.as<float>()[column * block.count + row] = source[column];
        }
    }
    const ConstTensorView errors(block.errors, DType::f32, {weight.dim(0), block.count});
    ops::matmul(context, errors, turned, {}, DType::f32, ops::MatmulOutput::accumulate,
                weight.columns(behind, columns));
}

double mean_diagonal(const ConstTensorView& gram) {
    double sum = 0.0;
    for (int64_t i = 0; i < gram.dim(0); ++i) sum += gram.as<float>()[i * gram.dim(0) + i];
    return sum / static_cast<double>(gram.dim(0));
}

// The gram per token, in the order of positions, with dampening on its diagonal.
void fill_moments(const LinearProblem& problem, std::span<const int32_t> order, double dampening,
                  const TensorView& moments) {
    const int64_t size = problem.gram.dim(0);
    const float* const gram = problem.gram.as<float>();
    const auto scale = static_cast<float>(1.0 / static_cast<double>(problem.num_tokens));
    const auto added = static_cast<float>(dampening * mean_diagonal(problem.gram) * scale);
    problem.context.threads->parallel_for(
        size, kUpdatedRowGrain, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t row = order.empty() ? i : order[static_cast<size_t>(i)];
                float* const target = moments.as<float>() + i * size;
                for (int64_t j = 0; j < size; ++j) {
                    const int64_t column = order.empty() ? j : order[static_cast<size_t>(j)];
                    target[j] = gram[row * size + column] * scale;
                }
                if (target[i] == 0.0f) target[i] = 1.0f;
                target[i] += added;
            }
        });
}

void clear_dead_columns(const LinearProblem& problem) {
    const int64_t in = problem.weight.dim(1);
    for (int64_t column = 0; column < in; ++column) {
        if (problem.gram.as<float>()[column * in + column] != 0.0f) continue;
        for (int64_t row = 0; row < problem.weight.dim(0); ++row) {
            problem.weight.as<float>()[row * in + column] = 0.0f;
        }
    }
}

std::vector<int32_t> by_descending_moment(const ConstTensorView& gram) {
    const int64_t size = gram.dim(0);
    std::vector<int32_t> order(static_cast<size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return gram.as<float>()[a * (size + 1)] > gram.as<float>()[b * (size + 1)];
    });
    return order;
}

template <typename Place>
void move_columns(const Context& context, const TensorView& weight, const Place& place) {
    const int64_t in = weight.dim(1);
    context.threads->parallel_for(weight.dim(0), kUpdatedRowGrain,
                                  [&](int64_t begin, int64_t end, int) {
                                      std::vector<float> row(static_cast<size_t>(in));
                                      for (int64_t i = begin; i < end; ++i) {
                                          float* const values = weight.as<float>() + i * in;
                                          std::copy_n(values, in, row.data());
                                          for (int64_t column = 0; column < in; ++column)
                                              place(row.data(), values, column);
                                      }
                                  });
}

}  // namespace

void ColumnRule::begin_block(int64_t, int64_t, const ConstTensorView&) {}

InverseFactor factor_moments(const LinearProblem& problem, bool descending) {
    NVLLM_CHECK(problem.gram.data != nullptr && problem.num_tokens > 0,
                "this method needs second moments");
    clear_dead_columns(problem);
    InverseFactor factor;
    if (descending) factor.order = by_descending_moment(problem.gram);
    const int64_t size = problem.gram.dim(0);
    factor.upper = Tensor::allocate(DType::f32, {size, size});
    factor.dampening = problem.options.dampening_frac;
    while (true) {
        fill_moments(problem, factor.order, factor.dampening, factor.upper.mutable_view());
        if (ops::inverse_cholesky(problem.context, factor.upper.mutable_view())) return factor;
        factor.dampening = std::max(factor.dampening, 1e-4) * kMoreDampening;
        if (factor.dampening > kMaxDampening) {
            throw Error(ErrorKind::bad_data,
                        "inputs of a linear are not finite numbers; does the model work with this "
                        "calibration text?");
        }
    }
}

void fit_columns(const Context& context, const TensorView& weight, const ConstTensorView& upper,
                 int64_t block_size, ColumnRule& rule) {
    const int64_t in = weight.dim(1);
    for (int64_t first = 0; first < in; first += block_size) {
        const ScratchArena::Scope scope(*context.scratch);
        Block block{first, std::min(block_size, in - first)};
        float* const diagonal = take(context, block.count, block.count).as<float>();
        for (int64_t row = 0; row < block.count; ++row) {
            std::copy_n(upper.as<float>() + (first + row) * in + first, block.count,
                        diagonal + row * block.count);
        }
        block.upper = diagonal;
        block.errors = take(context, weight.dim(0), block.count).as<float>();
        rule.begin_block(first, block.count, weight);
        context.threads->parallel_for(
            weight.dim(0), kUpdatedRowGrain, [&](int64_t begin, int64_t end, int) {
                for (int64_t row = begin; row < end; ++row) {
                    decide_row(block, row, weight.as<float>() + row * in, rule);
                }
            });
        tell_columns_behind(context, weight, upper, block);
    }
}

void permute_columns(const Context& context, const TensorView& weight,
                     std::span<const int32_t> order) {
    move_columns(context, weight, [&](const float* from, float* to, int64_t position) {
        to[position] = from[order[static_cast<size_t>(position)]];
    });
}

void unpermute_columns(const Context& context, const TensorView& weight,
                       std::span<const int32_t> order) {
    move_columns(context, weight, [&](const float* from, float* to, int64_t position) {
        to[order[static_cast<size_t>(position)]] = from[position];
    });
}

}  // namespace nvllm::quantize
