// Normalisations over the last axis.
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

struct RmsNormOptions {
    float epsilon = 1e-6f;
    // Added to every weight: Gemma stores weight - 1.
    float weight_offset = 0.0f;
};

// out = x / sqrt(mean(x²) + epsilon) * (weight + weight_offset), row by row.
// x, out: activations [tokens, hidden] or [tokens, heads, head_dim], rows may be strided, may be
// the same view. weight: float32, bfloat16 or float16 [last axis]. (Zhang & Sennrich 2019)
void rms_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
              const RmsNormOptions& options, const TensorView& out);

// out = (x - mean) / sqrt(variance + epsilon) * weight + bias, row by row. Shapes as above; bias
// may be empty. (Ba et al. 2016)
void layer_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, float epsilon, const TensorView& out);

}  // namespace nvllm::ops
