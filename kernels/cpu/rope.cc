// Rotary embedding on the CPU.
#include "kernels/ops/cpu_ops.h"

#include <cmath>

#include "kernels/cpu/simd/rows.h"

namespace nvllm::cpu {

void rope_cos_sin(const Context& context, const ConstTensorView& positions,
                  const ConstTensorView& inverse_frequencies, float attention_scaling,
                  const TensorView& cosines, const TensorView& sines,
                  const ConstTensorView& choices) {
    const int64_t half = cosines.dim(1);
    const int32_t* choice = choices.as<int32_t>();
    // A cosine costs about as much as ten of the values that a range counts.
    parallel_rows(context, positions.dim(0), half * 10, [&](int64_t token) {
        const auto position = static_cast<float>(positions.as<int32_t>()[token]);
        const float* frequencies =
            inverse_frequencies.as<float>() + (choice != nullptr ? choice[token] * half : 0);
        float* cosine = cosines.as<float>() + token * cosines.stride(0);
        float* sine = sines.as<float>() + token * sines.stride(0);
        for (int64_t i = 0; i < half; ++i) {
            // The angle is a float32 product; its cosine is exact to the last bit, which float
            // functions are not.
            const double angle = position * frequencies[i];
            cosine[i] = static_cast<float>(std::cos(angle)) * attention_scaling;
            sine[i] = static_cast<float>(std::sin(angle)) * attention_scaling;
        }
    });
}

void rope(const Context& context, const ConstTensorView& cosines, const ConstTensorView& sines,
          const TensorView& x) {
    const int64_t half = cosines.dim(1);
    const int64_t heads = x.dim(1);
    const auto kernel = kernels().rope;
    parallel_rows(context, x.dim(0), heads * half * 2, [&](int64_t token) {
        for (int64_t head = 0; head < heads; ++head) {
            kernel(cosines.as<float>() + token * cosines.stride(0),
                   sines.as<float>() + token * sines.stride(0),
                   x.as<float>() + token * x.stride(0) + head * x.stride(1), half);
        }
    });
}

}  // namespace nvllm::cpu
