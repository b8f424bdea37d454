// Blocked algorithms whose bulk are products of kernels/ops/matmul.h.
#include "kernels/cpu/linalg.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/matmul.h"
#include "kernels/thread_pool.h"

namespace nvllm::cpu {
namespace {

// Columns of a factor that are computed together: few enough that one thread's work on them is
// little, enough that the products beside them are worth their copies.
constexpr int64_t kBlock = 64;
// Rows of a Gram matrix that one product gives: half of it is never computed.
constexpr int64_t kGramRows = 256;
constexpr int64_t kTile = 32;

TensorView take(const Context& context, int64_t rows, int64_t columns) {
    const auto count = static_cast<size_t>(rows * columns);
    return {context.scratch->take_array<float>(count), DType::f32, {rows, columns}};
}

// y (+)= a b^T
void multiply(const Context& context, const ConstTensorView& a, const ConstTensorView& b,
              ops::MatmulOutput output, const TensorView& y) {
    ops::matmul(context, a, b, {}, DType::f32, output, y);
}

// to[columns, rows] = from[rows, columns]^T; both may have strided rows.
void transpose(const Context& context, const ConstTensorView& from, const TensorView& to) {
    const float* const source = from.as<float>();
    float* const target = to.as<float>();
    context.threads->parallel_for(from.dim(1), kTile, [&](int64_t begin, int64_t end, int) {
        for (int64_t first = 0; first < from.dim(0); first += kTile) {
            const int64_t last = std::min(first + kTile, from.dim(0));
            for (int64_t column = begin; column < end; ++column) {
                for (int64_t row = first; row < last; ++row) {
                    target[column * to.stride(0) + row] = source[row * from.stride(0) + column];
                }
            }
        }
    });
}

// to = factor * from, without gaps between rows.
void copy_scaled(const Context& context, const ConstTensorView& from, float factor,
                 const TensorView& to) {
    context.threads->parallel_for(from.dim(0), kTile, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            const float* const source = from.as<float>() + row * from.stride(0);
            float* const target = to.as<float>() + row * to.stride(0);
            for (int64_t column = 0; column < from.dim(1); ++column) {
                target[column] = factor * source[column];
            }
        }
    });
}

TensorView part(const TensorView& matrix, int64_t row, int64_t rows, int64_t column,
                int64_t columns) {
    return matrix.rows(row, rows).columns(column, columns);
}

// Factors a small diagonal block in place; sums in double precision.
bool factor_diagonal(const TensorView& block) {
    float* const values = block.as<float>();
    const int64_t stride = block.stride(0);
    for (int64_t j = 0; j < block.dim(0); ++j) {
        double pivot = values[j * stride + j];
        for (int64_t k = 0; k < j; ++k) {
            const double value = values[j * stride + k];
            pivot -= value * value;
        }
        // Negated, so that a NaN is no positive pivot either.
        if (!(pivot > 0.0) || !std::isfinite(pivot)) return false;
        const double root = std::sqrt(pivot);
        values[j * stride + j] = static_cast<float>(root);
        for (int64_t i = j + 1; i < block.dim(0); ++i) {
            double sum = values[i * stride + j];
            for (int64_t k = 0; k < j; ++k) {
                sum -= static_cast<double>(values[i * stride + k]) * values[j * stride + k];
            }
            values[i * stride + j] = static_cast<float>(sum / root);
        }
    }
    return true;
}

// rows = rows * L^-T for the factored diagonal block L: each row by forward substitution.
void solve_panel(const Context& context, const ConstTensorView& diagonal, const TensorView& panel) {
    const float* const lower = diagonal.as<float>();
    const int64_t stride = diagonal.stride(0);
    context.threads->parallel_for(panel.dim(0), kTile, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            float* const row = panel.as<float>() + i * panel.stride(0);
            for (int64_t j = 0; j < panel.dim(1); ++j) {
                double sum = row[j];
                for (int64_t k = 0; k < j; ++k) {
                    sum -= static_cast<double>(row[k]) * lower[j * stride + k];
                }
                row[j] = static_cast<float>(sum / lower[j * stride + j]);
            }
        }
    });
}

// The lower triangle of the square behind `panel` loses panel panel^T.
void update_behind(const Context& context, const TensorView& matrix, const TensorView& panel,
                   int64_t first) {
    const ScratchArena::Scope scope(*context.scratch);
    const int64_t rows = panel.dim(0);
    const TensorView factor = take(context, rows, panel.dim(1));
    const TensorView negative = take(context, rows, panel.dim(1));
    copy_scaled(context, panel, 1.0f, factor);
    copy_scaled(context, panel, -1.0f, negative);
    for (int64_t row = 0; row < rows; row += kGramRows) {
        const int64_t count = std::min(kGramRows, rows - row);
        multiply(context, negative.rows(row, count), factor.rows(0, row + count),
                 ops::MatmulOutput::accumulate,
                 part(matrix, first + row, count, first, row + count));
    }
}

void clear_upper(const Context& context, const TensorView& matrix) {
    const int64_t size = matrix.dim(0);
    context.threads->parallel_for(size, kTile, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            float* const values = matrix.as<float>() + row * size;
            std::fill(values + row + 1, values + size, 0.0f);
        }
    });
}

// Rows and columns in the opposite order.
void reverse(const Context& context, const ConstTensorView& from, const TensorView& to) {
    const int64_t size = from.dim(0);
    context.threads->parallel_for(size, kTile, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            const float* const source = from.as<float>() + (size - 1 - row) * size;
            std::reverse_copy(source, source + size, to.as<float>() + row * size);
        }
    });
}

// The inverse of a small lower triangular block, in place.
void invert_diagonal(const TensorView& block) {
    float* const values = block.as<float>();
    const int64_t stride = block.stride(0);
    // Row by row: what lies above a row is inverted already, the row itself is not.
    for (int64_t row = 0; row < block.dim(0); ++row) {
        double results[kBlock];
        const double diagonal = values[row * stride + row];
        for (int64_t column = 0; column < row; ++column) {
            double sum = 0.0;
            for (int64_t k = column; k < row; ++k) {
                sum -= static_cast<double>(values[row * stride + k]) * values[k * stride + column];
            }
            results[column] = sum / diagonal;
        }
        for (int64_t column = 0; column < row; ++column) {
            values[row * stride + column] = static_cast<float>(results[column]);
        }
        values[row * stride + row] = static_cast<float>(1.0 / diagonal);
    }
}

// Of [[A, 0], [B, C]] the inverse is [[A', 0], [-C' B A', C']]: both halves first, in place, then
// what lies below. `buffers` has room for three squares of the larger half.
void invert_halves(const Context& context, const TensorView& matrix, float* buffers) {
    const int64_t size = matrix.dim(0);
    if (size <= kBlock) return invert_diagonal(matrix);
    const int64_t upper = (size / 2 + kBlock - 1) / kBlock * kBlock;
    const int64_t lower = size - upper;
    const TensorView a = part(matrix, 0, upper, 0, upper);
    const TensorView b = part(matrix, upper, lower, 0, upper);
    const TensorView c = part(matrix, upper, lower, upper, lower);
    invert_halves(context, a, buffers);
    invert_halves(context, c, buffers);
    const TensorView a_turned(buffers, DType::f32, {upper, upper});
    const TensorView product(buffers + upper * upper, DType::f32, {lower, upper});
    const TensorView product_turned(buffers + 2 * upper * upper, DType::f32, {upper, lower});
    transpose(context, a, a_turned);
    multiply(context, b, a_turned, ops::MatmulOutput::overwrite, product);
    copy_scaled(context, product, -1.0f, product);
    transpose(context, product, product_turned);
    multiply(context, c, product_turned, ops::MatmulOutput::overwrite, b);
}

}  // namespace

void add_gram(const Context& context, const ConstTensorView& x, const TensorView& sum) {
    if (x.dim(0) == 0) return;
    const ScratchArena::Scope scope(*context.scratch);
    const int64_t size = x.dim(1);
    const TensorView turned = take(context, size, x.dim(0));
    transpose(context, x, turned);
    for (int64_t row = 0; row < size; row += kGramRows) {
        const int64_t count = std::min(kGramRows, size - row);
        multiply(context, turned.rows(row, count), turned.rows(0, row + count),
                 ops::MatmulOutput::accumulate, part(sum, row, count, 0, row + count));
    }
}

void mirror_lower(const Context& context, const TensorView& matrix) {
    const int64_t size = matrix.dim(0);
    float* const values = matrix.as<float>();
    // Columns above the diagonal come from rows below it, which nobody writes.
    context.threads->parallel_for(size, kTile, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            for (int64_t column = row + 1; column < size; ++column) {
                values[row * size + column] = values[column * size + row];
            }
        }
    });
}

bool cholesky(const Context& context, const TensorView& matrix) {
    const int64_t size = matrix.dim(0);
    for (int64_t first = 0; first < size; first += kBlock) {
        const int64_t count = std::min(kBlock, size - first);
        const TensorView diagonal = part(matrix, first, count, first, count);
        if (!factor_diagonal(diagonal)) return false;
        const int64_t behind = first + count;
        if (behind == size) break;
        const TensorView panel = part(matrix, behind, size - behind, first, count);
        solve_panel(context, diagonal, panel);
        update_behind(context, matrix, panel, behind);
    }
    clear_upper(context, matrix);
    return true;
}

void invert_lower(const Context& context, const TensorView& matrix) {
    const ScratchArena::Scope scope(*context.scratch);
    const int64_t upper = (matrix.dim(0) / 2 + kBlock - 1) / kBlock * kBlock;
    invert_halves(context, matrix, take(context, 3 * upper, upper).as<float>());
}

// With J the exchange of order and J A J = L L^T, A = R R^T for the upper triangular R = J L J, so
// U = R^-1 = J L^-1 J.
bool inverse_cholesky(const Context& context, const TensorView& matrix) {
    const ScratchArena::Scope scope(*context.scratch);
    const int64_t size = matrix.dim(0);
    const TensorView turned = take(context, size, size);
    mirror_lower(context, matrix);
    reverse(context, matrix, turned);
    if (!cholesky(context, turned)) return false;
    invert_lower(context, turned);
    reverse(context, turned, matrix);
    return true;
}

}  // namespace nvllm::cpu
