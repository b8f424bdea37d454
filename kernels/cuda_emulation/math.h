// The device's fast functions, computed by the host's.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace nvllm::gpu {

// Approximations on the device, to about 2 ulp; here rounded correctly or nearly so.
inline float fast_exp2(float x) { return std::exp2(x); }
inline float fast_exp(float x) { return std::exp(x); }
inline float fast_log2(float x) { return std::log2(x); }
inline float fast_log(float x) { return std::log(x); }
inline float fast_divide(float a, float b) { return a / b; }
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline float fast_tanh(float x) { return std::tanh(x); }
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }

// To the nearest integer, ties to even; beyond int's range the nearest end, NaN to 0.
inline int round_to_int(float x) {
    if (std::isnan(x)) return 0;
    if (x >= 2147483648.0f) return INT32_MAX;
    if (x < -2147483648.0f) return INT32_MIN;
    return static_cast<int>(std::nearbyint(x));
}

inline int count_ones(uint32_t x) { return std::popcount(x); }
// Of 0: 32.
inline int count_leading_zeros(uint32_t x) { return std::countl_zero(x); }
inline int count_trailing_zeros(uint32_t x) { return std::countr_zero(x); }

inline uint32_t float_as_bits(float x) { return std::bit_cast<uint32_t>(x); }
inline float bits_as_float(uint32_t x) { return std::bit_cast<float>(x); }

// c + the sum of the products of four signed bytes.
inline int dot_i8x4(uint32_t a, uint32_t b, int c) {
    for (int i = 0; i < 32; i += 8) c += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
    return c;
}

// Byte i of the result is byte (selector >> 4 i) & 7 of the eight bytes of `low` and `high`: a
// fourth bit of a selector, which means a sign to the instruction, CUDA's function takes away.
inline uint32_t permute_bytes(uint32_t low, uint32_t high, uint32_t selector) {
    const uint64_t bytes = uint64_t{high} << 32 | low;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
        const uint32_t pick = selector >> (4 * i) & 7;
        result |= static_cast<uint32_t>(bytes >> (8 * pick) & 0xff) << (8 * i);
    }
    return result;
}

// Any function of three bits, by its table: (0xf0 & 0xcc) | 0xaa for (a & b) | c.
template <uint32_t table>
uint32_t logic3(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t result = 0;
    for (uint32_t row = 0; row < 8; ++row) {
        if ((table >> row & 1) == 0) continue;
        result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    }
    return result;
}

}  // namespace nvllm::gpu
