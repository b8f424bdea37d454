// The rotation of pairs of values, for the kernels that rotate. For .cu files only.
#pragma once

#include "kernels/cuda/elements.h"

namespace nvllm::cuda {

// (a, b) becomes (a cosine - b sine, b cosine + a sine). One product of each is rounded before the
// other joins it.
__device__ __forceinline__ void rotate_pairs(float (&a)[kRun], float (&b)[kRun],
                                             const float (&cosine)[kRun],
                                             const float (&sine)[kRun]) {
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
        const float first = gpu::fma(a[i], cosine[i], -(b[i] * sine[i]));
        b[i] = gpu::fma(b[i], cosine[i], a[i] * sine[i]);
        a[i] = first;
    }
}

}  // namespace nvllm::cuda
