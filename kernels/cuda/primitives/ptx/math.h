// The device's fast functions.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives/ptx/words.h"

namespace nvllm::gpu {

__device__ __forceinline__ float fast_exp2(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
__device__ __forceinline__ float fast_exp(float x) { return __expf(x); }
__device__ __forceinline__ float fast_log2(float x) { return __log2f(x); }
__device__ __forceinline__ float fast_log(float x) { return __logf(x); }
__device__ __forceinline__ float fast_divide(float a, float b) { return __fdividef(a, b); }
__device__ __forceinline__ float rsqrt(float x) { return ::rsqrtf(x); }
__device__ __forceinline__ float fast_tanh(float x) {
    float result;
    asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
__device__ __forceinline__ float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// To the nearest integer, ties to even; beyond int's range the nearest end, NaN to 0.
__device__ __forceinline__ int round_to_int(float x) { return __float2int_rn(x); }

__device__ __forceinline__ int count_ones(uint32_t x) { return __popc(x); }
// Of 0: 32.
__device__ __forceinline__ int count_leading_zeros(uint32_t x) {
    return __clz(static_cast<int>(x));
}
__device__ __forceinline__ int count_trailing_zeros(uint32_t x) {
    return x == 0 ? 32 : __ffs(static_cast<int>(x)) - 1;
}

__device__ __forceinline__ uint32_t float_as_bits(float x) { return __float_as_uint(x); }
__device__ __forceinline__ float bits_as_float(uint32_t x) { return __uint_as_float(x); }

// c + the sum of the products of four signed bytes.
__device__ __forceinline__ int dot_i8x4(uint32_t a, uint32_t b, int c) {
    return __dp4a(static_cast<int>(a), static_cast<int>(b), c);
}

// Byte i of the result is byte (selector >> 4 i) & 7 of the eight bytes of `low` and `high`.
__device__ __forceinline__ uint32_t permute_bytes(uint32_t low, uint32_t high, uint32_t selector) {
    return __byte_perm(low, high, selector);
}

// Any function of three bits, by its table: (0xf0 & 0xcc) | 0xaa for (a & b) | c.
template <uint32_t table>
__device__ __forceinline__ uint32_t logic3(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(result) : "r"(a), "r"(b), "r"(c), "n"(table));
    return result;
}

}  // namespace nvllm::gpu
