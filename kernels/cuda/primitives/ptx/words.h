// CUDA's headers, and shared memory by the project's macros.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// GPU_SHARED(float, sums, [8][32]): a static shared array `sums`. GPU_DYNAMIC_SHARED(float, rows):
// `float* rows`.
#define GPU_SHARED(type, name, extent) __shared__ __align__(16) type name extent
#define GPU_DYNAMIC_SHARED(type, name)                                    \
    extern __shared__ __align__(1024) unsigned char gpu_dynamic_memory[]; \
    type* name = reinterpret_cast<type*>(gpu_dynamic_memory)
