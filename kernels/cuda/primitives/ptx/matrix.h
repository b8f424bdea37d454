// Tensor-core instructions of a warp: matmuls, and loads and stores of 8x8 matrices of
// 16-bit elements.
//
// What each register holds stands in emulation/matrix.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/primitives/ptx/async_copy.h"
#include "kernels/cuda/primitives/ptx/words.h"

namespace nvllm::gpu {

#define NVLLM_MMA(shape_and_types, sum_constraint)                                   \
    asm volatile("mma.sync.aligned." shape_and_types                                 \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"  \
                 : sum_constraint(d[0]), sum_constraint(d[1]), sum_constraint(d[2]), \
                   sum_constraint(d[3])                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// d += a b, of T.
template <typename T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]);
template <>
__device__ __forceinline__ void mma_m16n8k16<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4],
                                                            const uint32_t (&b)[2]) {
    NVLLM_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
}
template <>
__device__ __forceinline__ void mma_m16n8k16<__half>(float (&d)[4], const uint32_t (&a)[4],
                                                     const uint32_t (&b)[2]) {
    NVLLM_MMA("m16n8k16.row.col.f32.f16.f16.f32", "+f");
}

template <typename T>
__device__ __forceinline__ void mma_m16n8k32(int (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]);
template <>
__device__ __forceinline__ void mma_m16n8k32<int8_t>(int (&d)[4], const uint32_t (&a)[4],
                                                     const uint32_t (&b)[2]) {
    NVLLM_MMA("m16n8k32.row.col.s32.s8.s8.s32", "+r");
}

// sm_89 and later; a kernel that calls it on an older device traps.
template <typename T>
__device__ __forceinline__ void mma_m16n8k32(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]);
template <>
__device__ __forceinline__ void mma_m16n8k32<__nv_fp8_e4m3>(float (&d)[4], const uint32_t (&a)[4],
                                                            const uint32_t (&b)[2]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
    NVLLM_MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32", "+f");
#else
    (void)d, (void)a, (void)b;
    __trap();
#endif
}

#undef NVLLM_MMA

// d += a b, of T, where each row of a keeps two of each four neighbours.
template <typename T, int pair>
__device__ __forceinline__ void mma_sparse_m16n8k32(float (&d)[4], const uint32_t (&a)[4],
                                                    const uint32_t (&b)[4], uint32_t places) {
#define NVLLM_SPARSE_MMA(types)                                                                 \
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col." types                \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3},"   \
                 " %12, %13;"                                                                   \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                               \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), \
                   "r"(b[3]), "r"(places), "n"(pair))
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        NVLLM_SPARSE_MMA("f32.bf16.bf16.f32");
    } else {
        static_assert(std::is_same_v<T, __half>);
        NVLLM_SPARSE_MMA("f32.f16.f16.f32");
    }
#undef NVLLM_SPARSE_MMA
}

// Four (two) 8x8 matrices of 16-bit elements from shared memory; lanes 8i..8i+7 give the rows of
// matrix i.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_transposed(uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x2(uint32_t (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(row))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_transposed(uint32_t (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(row))
                 : "memory");
}

// The inverse of ldmatrix_x4. sm_90 and later; a kernel that calls it on an older device traps.
__device__ __forceinline__ void stmatrix_x4(void* row, const uint32_t (&r)[4]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(row)),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
#else
    (void)row, (void)r;
    __trap();
#endif
}

}  // namespace nvllm::gpu
