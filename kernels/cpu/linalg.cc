// Blocked algorithms whose bulk are products of kernels/ops/matmul.h.
#include "kernels/ops/cpu_ops.h"

#include <algorithm>
#include <cmath>

#include "kernels/host/thread_pool.h"
#include "kernels/ops/matmul.h"

namespace nvllm::cpu {
namespace {

// Columns of a factor that are computed together: few enough that one thread's work on them is
// little, enough that the products beside them are worth their copies.
constexpr int64_t kBlock = 64;
// Rows of a Gram matrix that one product gives: half of it is never computed.
constexpr int64_t kGramRows = 256;
// Of a triangle, the columns that one product takes: what lies beyond them is never multiplied.
constexpr int64_t kBand = 512;
constexpr int64_t kTile = 32;

TensorView take(const Context& context, int64_t rows, int64_t columns, DType type = DType::f32) {
    const size_t bytes = static_cast<size_t>(rows * columns) * dtype_bytes(type);
    return {context.scratch->take(bytes), type, {rows, columns}};
}

// function(begin, end, thread) over all of `rows` in parallel; not in a dry run.
template <typename Function>
void for_rows(const Context& context, int64_t rows, const Function& function) {
    if (!context.is_dry_run()) context.threads->parallel_for(rows, kTile, function);
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
    for_rows(context, from.dim(1), [&](int64_t begin, int64_t end, int) {
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
    for_rows(context, from.dim(0), [&](int64_t begin, int64_t end, int) {
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
bool factor_diagonal(const Context& context, const TensorView& block) {
    if (context.is_dry_run()) return true;
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

// rows = rows * L^-T for a factored diagonal block L: each row by forward substitution.
void solve_panel(const Context& context, const ConstTensorView& diagonal, const TensorView& rows) {
    if (context.is_dry_run()) return;
    const float* const lower = diagonal.as<float>();
    const int64_t size = diagonal.dim(0);
    double columns[kBlock][kBlock];
    for (int64_t j = 0; j < size; ++j) {
        for (int64_t k = 0; k <= j; ++k) columns[k][j] = lower[j * diagonal.stride(0) + k];
    }
    for_rows(context, rows.dim(0), [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            float* const row = rows.as<float>() + i * rows.stride(0);
            double sums[kBlock];
            std::copy_n(row, size, sums);
            for (int64_t k = 0; k < size; ++k) {
                row[k] = static_cast<float>(sums[k] / columns[k][k]);
                const double value = row[k];
                for (int64_t j = k + 1; j < size; ++j) sums[j] -= value * columns[k][j];
            }
        }
    });
}

// A lower triangle [[a, .], [b, c]], cut where blocks meet.
struct Halves {
    TensorView a;
    TensorView b;
    TensorView c;

    explicit Halves(const TensorView& matrix) {
        const int64_t upper = (matrix.dim(0) / 2 + kBlock - 1) / kBlock * kBlock;
        const int64_t lower = matrix.dim(0) - upper;
        a = part(matrix, 0, upper, 0, upper);
        b = part(matrix, upper, lower, 0, upper);
        c = part(matrix, upper, lower, upper, lower);
    }
};

// rows = rows * L^-T for a factored lower triangle L: the second half of the columns loses what
// the first one gives it.
void solve_lower(const Context& context, const TensorView& lower, const TensorView& rows) {
    if (lower.dim(0) <= kBlock) return solve_panel(context, lower, rows);
    const Halves halves(lower);
    const TensorView first = rows.columns(0, halves.a.dim(0));
    const TensorView second = rows.columns(halves.a.dim(0), halves.c.dim(0));
    solve_lower(context, halves.a, first);
    {
        const ScratchArena::Scope scope(*context.scratch);
        const TensorView negative = take(context, halves.b.dim(0), halves.b.dim(1));
        copy_scaled(context, halves.b, -1.0f, negative);
        multiply(context, first, negative, ops::MatmulOutput::accumulate, second);
    }
    solve_lower(context, halves.c, second);
}

// The lower triangle of a square loses rows rows^T.
void subtract_square(const Context& context, const TensorView& rows, const TensorView& square) {
    const ScratchArena::Scope scope(*context.scratch);
    const int64_t size = rows.dim(0);
    const TensorView negative = take(context, size, rows.dim(1));
    copy_scaled(context, rows, -1.0f, negative);
    for (int64_t row = 0; row < size; row += kGramRows) {
        const int64_t count = std::min(kGramRows, size - row);
        multiply(context, rows.rows(row, count), negative.rows(0, row + count),
                 ops::MatmulOutput::accumulate, part(square, row, count, 0, row + count));
    }
}

// Of [[A, .], [B, C]] with A = L L^T the factor is [[L, .], [B L^-T, that of C - B A^-1 B^T]]: both
// halves alike, down to blocks. The upper triangle stays as it is.
bool factor_lower(const Context& context, const TensorView& matrix) {
    if (matrix.dim(0) <= kBlock) return factor_diagonal(context, matrix);
    const Halves halves(matrix);
    if (!factor_lower(context, halves.a)) return false;
    solve_lower(context, halves.a, halves.b);
    subtract_square(context, halves.b, halves.c);
    return factor_lower(context, halves.c);
}

void clear_upper(const Context& context, const TensorView& matrix) {
    const int64_t size = matrix.dim(0);
    for_rows(context, size, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            float* const values = matrix.as<float>() + row * size;
            std::fill(values + row + 1, values + size, 0.0f);
        }
    });
}

// Rows and columns in the opposite order.
void reverse(const Context& context, const ConstTensorView& from, const TensorView& to) {
    const int64_t size = from.dim(0);
    for_rows(context, size, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            const float* const source = from.as<float>() + (size - 1 - row) * size;
            std::reverse_copy(source, source + size, to.as<float>() + row * size);
        }
    });
}

// The inverse of a small lower triangular block, in place.
void invert_diagonal(const Context& context, const TensorView& block) {
    if (context.is_dry_run()) return;
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

// y = left lower, for a lower triangle: its rows are taken in bands, without the zeros behind them.
void multiply_by_lower(const Context& context, const TensorView& left, const TensorView& lower,
                       const TensorView& y) {
    // The last rows of the triangle are full, so their products begin the sums.
    for (int64_t end = lower.dim(0); end > 0;) {
        const ScratchArena::Scope scope(*context.scratch);
        const int64_t first = (end - 1) / kBand * kBand;
        const TensorView turned = take(context, end, end - first);
        transpose(context, part(lower, first, end - first, 0, end), turned);
        multiply(context, left.columns(first, end - first), turned,
                 end == lower.dim(0) ? ops::MatmulOutput::overwrite : ops::MatmulOutput::accumulate,
                 y.columns(0, end));
        end = first;
    }
}

// y = lower right, alike.
void multiply_lower_by(const Context& context, const TensorView& lower, const TensorView& right,
                       const TensorView& y) {
    const int64_t size = lower.dim(0);
    for (int64_t first = 0; first < size; first += kBand) {
        const ScratchArena::Scope scope(*context.scratch);
        const int64_t count = std::min(kBand, size - first);
        const TensorView turned = take(context, right.dim(1), count);
        transpose(context, right.rows(first, count), turned);
        multiply(context, part(lower, first, size - first, first, count), turned,
                 first == 0 ? ops::MatmulOutput::overwrite : ops::MatmulOutput::accumulate,
                 y.rows(first, size - first));
    }
}

}  // namespace

// x^T is what products take as weights, in their type; and a few of its rows at a time are what
// they take as activations.
void add_gram(const Context& context, const ConstTensorView& x, DType compute_type,
              const TensorView& sum) {
    if (x.dim(0) == 0) return;
    const ScratchArena::Scope scope(*context.scratch);
    const int64_t size = x.dim(1);
    const bool is_rounded = compute_type != DType::f32;
    const TensorView weights = take(context, size, x.dim(0), compute_type);
    const TensorView buffer =
        is_rounded ? take(context, std::min(kGramRows, size), x.dim(0)) : TensorView();
    for (int64_t row = 0; row < size; row += kGramRows) {
        const int64_t count = std::min(kGramRows, size - row);
        const TensorView turned = is_rounded ? buffer.rows(0, count) : weights.rows(row, count);
        transpose(context, x.columns(row, count), turned);
        if (is_rounded) ops::convert(context, turned, weights.rows(row, count));
        ops::matmul(context, turned, weights.rows(0, row + count), {}, compute_type,
                    ops::MatmulOutput::accumulate, part(sum, row, count, 0, row + count));
    }
}

void mirror_lower(const Context& context, const TensorView& matrix) {
    const int64_t size = matrix.dim(0);
    float* const values = matrix.as<float>();
    // Columns above the diagonal come from rows below it, which are not written.
    for_rows(context, size, [&](int64_t begin, int64_t end, int) {
        for (int64_t column = begin + 1; column < size; ++column) {
            for (int64_t row = begin; row < std::min(end, column); ++row) {
                values[row * size + column] = values[column * size + row];
            }
        }
    });
}

bool cholesky(const Context& context, const TensorView& matrix) {
    if (!factor_lower(context, matrix)) return false;
    clear_upper(context, matrix);
    return true;
}

// Of [[A, 0], [B, C]] the inverse is [[A', 0], [-C' B A', C']]: both halves first, in place, then
// what lies below.
void invert_lower(const Context& context, const TensorView& matrix) {
    if (matrix.dim(0) <= kBlock) return invert_diagonal(context, matrix);
    const Halves halves(matrix);
    invert_lower(context, halves.a);
    invert_lower(context, halves.c);
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView product = take(context, halves.b.dim(0), halves.b.dim(1));
    multiply_by_lower(context, halves.b, halves.a, product);
    copy_scaled(context, product, -1.0f, product);
    multiply_lower_by(context, halves.c, product, halves.b);
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
