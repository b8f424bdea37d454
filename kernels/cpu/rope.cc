// Rotary embedding on the CPU.
#include "kernels/ops/cpu_ops.h"

#include <cmath>

#include "kernels/cpu/simd/rows.h"

namespace nvllm::cpu {
namespace {

// Pairs (2 i, 2 i + 1) of one head. Products and sums are rounded one by one.
void rotate_neighbours(const float* cosines, const float* sines, float* x, int64_t half) {
    for (int64_t i = 0; i < half; ++i) {
        const float first = x[2 * i];
        const float second = x[2 * i + 1];
        x[2 * i] = first * cosines[i] - second * sines[i];
        x[2 * i + 1] = second * cosines[i] + first * sines[i];
    }
}

}  // namespace

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
          ops::RopePairs pairs, const TensorView& x) {
    const int64_t half = cosines.dim(1);
    const int64_t heads = x.dim(1);
    const auto kernel = pairs == ops::RopePairs::halves ? kernels().rope : rotate_neighbours;
    parallel_rows(context, x.dim(0), heads * half * 2, [&](int64_t token) {
        for (int64_t head = 0; head < heads; ++head) {
            kernel(cosines.as<float>() + token * cosines.stride(0),
                   sines.as<float>() + token * sines.stride(0),
                   x.as<float>() + token * x.stride(0) + head * x.stride(1), half);
        }
    });
}

void position_factors(const Context&, const ConstTensorView& positions, float beta,
                      int64_t original, int64_t offset, const TensorView& factors) {
    for (int64_t token = 0; token < factors.dim(0); ++token) {
        const int64_t turns = (positions.as<int32_t>()[token] + offset) / original;
        factors.as<float>()[token] =
            1.0f + beta * static_cast<float>(std::log(1.0 + static_cast<double>(turns)));
    }
}

}  // namespace nvllm::cpu
