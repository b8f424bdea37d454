// The arithmetic of a normalised row, for the kernels that normalise. For .cu files only.
#pragma once

#include "kernels/cuda/elements.h"

namespace nvllm::cuda {

// 1 / sqrt(squares / width + epsilon)
__device__ __forceinline__ float inverse_root(float squares, int64_t width, float epsilon) {
    return 1.0f / sqrtf(squares / static_cast<float>(width) + epsilon);
}

// What a normalised row is multiplied with and shifted by.
template <typename W>
struct Scale {
    const W* weight;
    const W* bias;  // may be null
    float offset;   // added to every weight
    bool aligned;

    // (value - mean) * factor * weight + bias for one run.
    __device__ __forceinline__ void apply(int64_t column, int64_t count, float mean, float factor,
                                          float (&values)[kRun]) const {
        float scale[kRun];
        float shift[kRun] = {};
        load_run(weight + column, count, aligned, scale);
        if (bias != nullptr) load_run(bias + column, count, aligned, shift);
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            values[i] = gpu::fma((values[i] - mean) * factor, scale[i] + offset, shift[i]);
        }
    }
};

template <typename W>
Scale<W> scale_of(const ConstTensorView& weight, const ConstTensorView& bias, float offset) {
    const bool aligned =
        is_aligned(weight.data) && is_aligned(bias.data) && weight.dim(0) % kRun == 0;
    return {weight.as<W>(), bias.as<W>(), offset, aligned};
}

}  // namespace nvllm::cuda
