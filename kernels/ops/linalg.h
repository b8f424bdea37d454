// Dense linear algebra on the host: what methods that fit weights to second moments need.
//
// All matrices are float32, row-major and of the CPU. Sums have one order, whatever the number of
// threads: products are those of matmul.h, the rest is computed by one thread for each element.
// Scratch is taken from the context's arena.
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// sum[n, n] += x^T x, the lower triangle with its diagonal alone. x [rows, n], rows may be strided;
// it is rounded to `compute_type` first, as matmul() does.
void add_gram(const Context& context, const ConstTensorView& x, DType compute_type,
              const TensorView& sum);

// Copies the lower triangle of matrix[n, n] over the upper one.
void mirror_lower(const Context& context, const TensorView& matrix);

// The Cholesky factor L of a symmetric matrix[n, n], of which the lower triangle is read: in place,
// zeros above the diagonal. False when the matrix is not positive definite; its content is of no
// use then.
[[nodiscard]] bool cholesky(const Context& context, const TensorView& matrix);

// The inverse of a lower triangular matrix[n, n] without zeros on its diagonal, in place. REQUIRES:
// zeros above the diagonal. Takes scratch of half of the matrix, more for small ones.
void invert_lower(const Context& context, const TensorView& matrix);

// The upper triangular U with inverse(matrix) = U^T U, in place of a symmetric matrix[n, n] of
// which the lower triangle is read. False as cholesky(). Takes scratch of 1.5 times the matrix,
// more for small ones.
[[nodiscard]] bool inverse_cholesky(const Context& context, const TensorView& matrix);

}  // namespace nvllm::ops
