// A quantized matrix in the words of the op that multiplies it.
#pragma once

#include <optional>

#include "kernels/ops/matmul_quantized.h"
#include "lib/model/weights/quantized_matrix.h"

namespace nvllm {

// The layout of a matrix whose scales are of this type. Empty: no op multiplies it.
std::optional<ops::QuantizedLayout> operand_layout(const QuantizedMatrix& matrix, DType scale_type);

// How x is rounded for it; compute_type where nothing is said or the way is not known.
ops::ActivationRounding operand_rounding(const QuantizationScheme& scheme,
                                         const QuantizedMatrix& matrix);

// Columns so that those of one group lie together, int32 [in]: which one is at each index. Empty:
// groups are not all of one size. REQUIRES: a group index.
std::optional<Tensor> grouped_columns(const QuantizedMatrix& matrix);
// Codes [out, in] with columns exchanged so.
Tensor with_columns(const Tensor& codes, const Tensor& columns, ThreadPool& threads);

// Scales or zero points of blocks as one row for each output; of others the tensor itself.
Tensor for_each_row(const QuantizedMatrix& matrix, const Tensor& of_scales);

}  // namespace nvllm
