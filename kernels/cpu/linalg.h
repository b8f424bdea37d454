// Dense linear algebra on the CPU; the contract is in kernels/ops/linalg.h.
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::cpu {

void add_gram(const Context& context, const ConstTensorView& x, DType compute_type,
              const TensorView& sum);
size_t gram_scratch_bytes(int64_t rows, int64_t size, DType compute_type,
                          const ScratchTerms& terms);
void mirror_lower(const Context& context, const TensorView& matrix);
bool cholesky(const Context& context, const TensorView& matrix);
void invert_lower(const Context& context, const TensorView& matrix);
bool inverse_cholesky(const Context& context, const TensorView& matrix);

}  // namespace nvllm::cpu
