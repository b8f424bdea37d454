// Rounding of rows of x to quantized values, as quantized matmuls take them.
#pragma once

#include <cstdint>

#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cpu {

// Scales of one row; 1 where the whole row shares one (or one that is given).
int64_t num_activation_scales(const ops::ActivationRounding& rounding, int64_t in);
// Whether those scales are applied once for a row, at the end.
bool has_row_scale(const ops::ActivationRounding& rounding);

// The quantized values of a row as what they stand for, or integers as they are, before scaling.
// Writes `scales` as num_activation_scales() says. `least`: the largest magnitude of a row is at
// least that (QuantizedWeight::row_maxima); 0: it is that of x. REQUIRES: not compute_type.
void round_activations(const ops::ActivationRounding& rounding, const float* x, int64_t in,
                       float least, float* values, float* scales);
void round_to_integers(const ops::ActivationRounding& rounding, const float* x, int64_t in,
                       float least, int8_t* codes, float* scale);

}  // namespace nvllm::cpu
