// Quantized weights to sixteen float32 lanes with AVX-512. Names as in dequantize_scalar.h.
#pragma once

#include "kernels/cpu/quantized/dequantize_scalar.h"
#include "kernels/cpu/simd/simd_avx512.h"

namespace nvllm::cpu {

struct Avx512Dequantizer {
    using Simd = Avx512;
    using F = __m512;
    using Words = __m512i;

    static Words load(const uint32_t* p) { return _mm512_loadu_si512(p); }
    // A permutation looks at the lowest four bits only.
    template <int index>
    static F int4(Words words) {
        const __m512 values = _mm512_setr_ps(-8.0f, -7.0f, -6.0f, -5.0f, -4.0f, -3.0f, -2.0f, -1.0f,
                                             0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f);
        return _mm512_permutexvar_ps(_mm512_srli_epi32(words, 4 * index), values);
    }
    template <int index>
    static F int8(Words words) {
        return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(words, 24 - 8 * index), 24));
    }
    template <int index>
    static F float4(Words words) {
        const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f,
                                             -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
        return _mm512_permutexvar_ps(_mm512_srli_epi32(words, 4 * index), values);
    }
    template <int index>
    static F float8(Words words) {
        const __m512i magnitude = _mm512_and_si512(_mm512_srli_epi32(words, 8 * index), set(127));
        const __m512i normal = _mm512_add_epi32(_mm512_slli_epi32(magnitude, 20), set(120 << 23));
        const __m512 subnormals =
            _mm512_setr_ps(0.0f, 0x1p-9f, 0x2p-9f, 0x3p-9f, 0x4p-9f, 0x5p-9f, 0x6p-9f, 0x7p-9f,
                           0.0f, 0x1p-9f, 0x2p-9f, 0x3p-9f, 0x4p-9f, 0x5p-9f, 0x6p-9f, 0x7p-9f);
        const __mmask16 is_subnormal = _mm512_cmplt_epi32_mask(magnitude, set(8));
        const __m512 value = _mm512_mask_permutexvar_ps(_mm512_castsi512_ps(normal), is_subnormal,
                                                        magnitude, subnormals);
        // value | (sign & 0x80000000)
        const __m512i sign = _mm512_slli_epi32(words, 24 - 8 * index);
        return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
            _mm512_castps_si512(value), sign, set(static_cast<int>(0x80000000u)), 0xf8));
    }
    template <int bits>
    static Words shifted_right(Words words) {
        return _mm512_srli_epi32(words, bits);
    }
    static F choose(const float* four, Words words) {
        return _mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(four)), words);
    }
    static F small(const int8_t* p) {
        return _mm512_cvtepi32_ps(
            _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    }

    using Sum = __m512i;
    using X = int16_t;
    static constexpr int int4_parts = 4;
    static constexpr int int8_parts = 2;
    static constexpr int int4_order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    static constexpr int int8_order[4] = {0, 2, 1, 3};
    static constexpr bool int4_is_shifted = false;
    static constexpr bool x_is_shifted = false;
    static Sum no_sums() { return _mm512_setzero_si512(); }
    static F to_float(Sum sum) { return _mm512_cvtepi32_ps(sum); }
    template <int part>
    static Words int4_weights(Words words) {
        const __m512i field =
            _mm512_and_si512(_mm512_srli_epi16(words, 4 * part), _mm512_set1_epi16(15));
        return _mm512_sub_epi16(field, _mm512_set1_epi16(8));
    }
    template <int part>
    static Words int8_weights(Words words) {
        return _mm512_srai_epi16(_mm512_slli_epi16(words, 8 - 8 * part), 8);
    }
    static void add_int4(Words weights, const X* x, Sum& sum) { add_pairs(weights, x, sum); }
    static void add_int8(Words weights, const X* x, Sum& sum) { add_pairs(weights, x, sum); }

  private:
    static __m512i set(int value) { return _mm512_set1_epi32(value); }
    static void add_pairs(__m512i weights, const X* x, Sum& sum) {
        int32_t pair;
        std::memcpy(&pair, x, sizeof(pair));
        sum = _mm512_add_epi32(sum, _mm512_madd_epi16(weights, set(pair)));
    }
};

}  // namespace nvllm::cpu
