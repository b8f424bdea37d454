// Conversions between float and the storage types. The same text serves nvcc and the emulation.
#pragma once

#include <cstdint>
#include <type_traits>

namespace nvllm::gpu {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(int8_t x) { return static_cast<float>(x); }
__device__ __forceinline__ float to_float(__nv_fp8_e4m3 x) { return static_cast<float>(x); }

template <typename T>
struct FromFloat;
template <>
struct FromFloat<float> {
    static __device__ __forceinline__ float of(float x) { return x; }
};
template <>
struct FromFloat<__nv_bfloat16> {
    static __device__ __forceinline__ __nv_bfloat16 of(float x) { return __float2bfloat16_rn(x); }
};
template <>
struct FromFloat<__half> {
    static __device__ __forceinline__ __half of(float x) { return __float2half_rn(x); }
};
// Beyond its range the nearest end, 448.
template <>
struct FromFloat<__nv_fp8_e4m3> {
    static __device__ __forceinline__ __nv_fp8_e4m3 of(float x) { return __nv_fp8_e4m3(x); }
};

// Of numbers that lie within.
template <>
struct FromFloat<int8_t> {
    static __device__ __forceinline__ int8_t of(float x) {
        return static_cast<int8_t>(round_to_int(x));
    }
};

// Rounded to the nearest T, ties to even.
template <typename T>
__device__ __forceinline__ T from_float(float x) {
    return FromFloat<T>::of(x);
}

// Two neighbours in one register, the first in the low half: T is bfloat16 or half.
template <typename T>
__device__ __forceinline__ uint32_t pack2(float low, float high);
template <>
__device__ __forceinline__ uint32_t pack2<__nv_bfloat16>(float low, float high) {
    return static_cast<uint32_t>(__bfloat16_as_ushort(__float2bfloat16_rn(high))) << 16 |
           __bfloat16_as_ushort(__float2bfloat16_rn(low));
}
template <>
__device__ __forceinline__ uint32_t pack2<__half>(float low, float high) {
    return static_cast<uint32_t>(__half_as_ushort(__float2half_rn(high))) << 16 |
           __half_as_ushort(__float2half_rn(low));
}

template <typename T>
__device__ __forceinline__ float2 unpack2(uint32_t pair);
template <>
__device__ __forceinline__ float2 unpack2<__nv_bfloat16>(uint32_t pair) {
    return {__bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(pair))),
            __bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(pair >> 16)))};
}
template <>
__device__ __forceinline__ float2 unpack2<__half>(uint32_t pair) {
    return {__half2float(__ushort_as_half(static_cast<unsigned short>(pair))),
            __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16)))};
}

// Two neighbours as CUDA has them.
template <typename T>
using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;

// The products, and the differences a - b, of both pairs' neighbours of T, each rounded once.
template <typename T>
__device__ __forceinline__ uint32_t multiply2(uint32_t a, uint32_t b) {
    const Pair<T> product =
        __hmul2(reinterpret_cast<const Pair<T>&>(a), reinterpret_cast<const Pair<T>&>(b));
    return reinterpret_cast<const uint32_t&>(product);
}
template <typename T>
__device__ __forceinline__ uint32_t subtract2(uint32_t a, uint32_t b) {
    const Pair<T> difference =
        __hsub2(reinterpret_cast<const Pair<T>&>(a), reinterpret_cast<const Pair<T>&>(b));
    return reinterpret_cast<const uint32_t&>(difference);
}

// Four values of one byte each as two pairs of T (bfloat16 or half), which hold them exactly.
template <typename C>
struct ByteQuads;
template <>
struct ByteQuads<__nv_fp8_e4m3> {
    // Bytes `first` and `second` of four. Sign, exponent and fraction go to their places in T,
    // whose bias is then made up for by a factor; NaN, all ones, gets T's exponent of NaN.
    template <typename T>
    static __device__ __forceinline__ uint32_t pair(uint32_t bytes, uint32_t selector) {
        constexpr bool half = std::is_same_v<T, __half>;
        constexpr int shift = half ? 1 : 4;  // from 4 bits of exponent to 5 or 8
        constexpr uint32_t factor = half ? 0x5c005c00u : 0x7b807b80u;  // 2^8, 2^120
        const uint32_t high = permute_bytes(bytes, 0, selector);       // each in an upper byte
        const uint32_t magnitude = high & 0x7f007f00u;
        const uint32_t is_nan = (magnitude + 0x01000100u) & 0x80008000u;
        const uint32_t exponent = half ? is_nan >> 1 : is_nan - (is_nan >> 4);
        return multiply2<T>((high & 0x80008000u) | (magnitude >> shift) | exponent, factor);
    }
    template <typename T>
    static __device__ __forceinline__ void dequantize(uint32_t bytes, uint32_t (&pairs)[2]) {
        pairs[0] = pair<T>(bytes, 0x1404u);
        pairs[1] = pair<T>(bytes, 0x3424u);
    }
};
template <>
struct ByteQuads<int8_t> {
    // A byte as the lowest of a float32 of 2^23: the number itself, and 128 more for the sign.
    static __device__ __forceinline__ float value(uint32_t shifted, int index) {
        const uint32_t bits =
            permute_bytes(shifted, 0x4b000000u, 0x7650u + static_cast<uint32_t>(index));
        return bits_as_float(bits) - 8388736.0f;
    }
    template <typename T>
    static __device__ __forceinline__ void dequantize(uint32_t bytes, uint32_t (&pairs)[2]) {
        const uint32_t shifted = bytes ^ 0x80808080u;
        pairs[0] = pack2<T>(value(shifted, 0), value(shifted, 1));
        pairs[1] = pack2<T>(value(shifted, 2), value(shifted, 3));
    }
};

}  // namespace nvllm::gpu
