// Numbers of 8 and 4 bits as weights and scales have them: E4M3, E8M0 and E2M1.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/types.h"

namespace nvllm {

constexpr float kLargestFloat8 = 448.0f;
constexpr float kLargestFloat4 = 6.0f;
constexpr std::array<float, 8> kFloat4Magnitudes = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

// Bits of an E4M3 (Float8E4M3) and back.
inline uint8_t to_float8(float value) { return Float8E4M3(value).bits; }
inline float from_float8(uint8_t bits) {
    Float8E4M3 value;
    value.bits = bits;
    return static_cast<float>(value);
}

// from_float8(to_float8(value)) without branches, for loops over many. REQUIRES: not NaN.
inline float rounded_to_float8(float value) {
    const float clamped = value < -kLargestFloat8  ? -kLargestFloat8
                          : value > kLargestFloat8 ? kLargestFloat8
                                                   : value;
    const uint32_t raw = std::bit_cast<uint32_t>(clamped);
    const float normal =
        std::bit_cast<float>((raw + 0x7ffffu + ((raw >> 20) & 1u)) & ~uint32_t{0xfffff});
    // To multiples of 2^-9: adding makes that the last bit.
    const float shifted = clamped + 0x1.8p14f;
    const float subnormal = shifted - 0x1.8p14f;
    return std::fabs(clamped) < 0x1p-6f ? subnormal : normal;
}

// Index of an E2M1 (nearest, ties to the even index, clamped to 6) and back; sign in bit 3.
inline uint8_t to_float4(float value) {
    const float magnitude = std::fabs(value);
    const int index = (magnitude > 0.25f) + (magnitude >= 0.75f) + (magnitude > 1.25f) +
                      (magnitude >= 1.75f) + (magnitude > 2.5f) + (magnitude >= 3.5f) +
                      (magnitude > 5.0f);
    return static_cast<uint8_t>(index | (std::signbit(value) ? 8 : 0));
}
inline float from_float4(uint8_t index) {
    const float magnitude = kFloat4Magnitudes[index & 7u];
    return (index & 8) != 0 ? -magnitude : magnitude;
}

// A biased exponent of two: the scales of MX formats. 255 is NaN.
inline float from_exponent(uint8_t biased) {
    if (biased == 255) return std::numeric_limits<float>::quiet_NaN();
    return std::ldexp(1.0f, biased - 127);
}
// The power of two that OCP MX scales values up to `largest` with: its exponent, rounded up where
// the mantissa is 1.75 or more, less that of the largest E2M1 or E4M3.
inline float choose_power_of_two(float largest, bool is_float4) {
    const uint32_t raw = std::bit_cast<uint32_t>(largest) + (1u << 21);
    const int exponent = static_cast<int>((raw >> 23) & 0xff) - (is_float4 ? 2 : 8);
    return from_exponent(static_cast<uint8_t>(exponent < 0 ? 0 : exponent > 254 ? 254 : exponent));
}
// Of a power of two.
inline uint8_t to_exponent(float scale) { return static_cast<uint8_t>(std::ilogb(scale) + 127); }

}  // namespace nvllm
