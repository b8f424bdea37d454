// Quantized weights to eight float32 lanes with AVX2. Names as in dequantize_scalar.h.
#pragma once

#include "kernels/cpu/quantized/dequantize_scalar.h"
#include "kernels/cpu/simd/simd_avx2.h"

namespace nvllm::cpu {

struct Avx2Dequantizer {
    using Simd = Avx2;
    using F = __m256;
    using Words = __m256i;

    static Words load(const uint32_t* p) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    }
    // Quantized values stay where they are in their words, without a shift and a subtraction for
    // each eight: 8 above what they are, times these factors, by which x is divided.
    alignas(32) static constexpr float int4_factors[8] = {1.0f,    0x1p4f,  0x1p8f,  0x1p12f,
                                                          0x1p16f, 0x1p20f, 0x1p24f, 1.0f};
    template <int index>
    static F int4(Words words) {
        // The topmost code would be a negative number.
        if constexpr (index == 7) {
            return _mm256_cvtepi32_ps(_mm256_srli_epi32(words, 28));
        } else {
            return _mm256_cvtepi32_ps(_mm256_and_si256(words, set(15 << (4 * index))));
        }
    }
    // A row of x, in place; count is a multiple of 8.
    static void divide_for_int4(float* x, int64_t count) {
        for (int64_t k = 0; k < count; k += 8) {
            Avx2::store(x + k, Avx2::div(Avx2::load(x + k), Avx2::load(int4_factors)));
        }
    }
    template <int index>
    static F int8(Words words) {
        return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(words, 24 - 8 * index), 24));
    }
    template <int index>
    static F float4(Words words) {
        const __m256 magnitudes = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
        const __m256 magnitude =
            _mm256_permutevar8x32_ps(magnitudes, _mm256_srli_epi32(words, 4 * index));
        return with_sign(magnitude, _mm256_slli_epi32(words, 28 - 4 * index));
    }
    template <int index>
    static F float8(Words words) {
        const __m256i magnitude = _mm256_and_si256(_mm256_srli_epi32(words, 8 * index), set(127));
        const __m256 subnormal =
            _mm256_mul_ps(_mm256_cvtepi32_ps(magnitude), _mm256_set1_ps(0x1p-9f));
        const __m256i normal = _mm256_add_epi32(_mm256_slli_epi32(magnitude, 20), set(120 << 23));
        const __m256i is_normal = _mm256_cmpgt_epi32(magnitude, set(7));
        return with_sign(_mm256_blendv_ps(subnormal, _mm256_castsi256_ps(normal),
                                          _mm256_castsi256_ps(is_normal)),
                         _mm256_slli_epi32(words, 24 - 8 * index));
    }
    template <int bits>
    static Words shifted_right(Words words) {
        return _mm256_srli_epi32(words, bits);
    }
    static F choose(const float* four, Words words) {
        return _mm256_permutevar_ps(_mm256_broadcast_ps(reinterpret_cast<const __m128*>(four)),
                                    words);
    }
    static F small(const int8_t* p) {
        return _mm256_cvtepi32_ps(
            _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
    }

    using Sum = __m256i;
    using X = int16_t;
    static constexpr int int4_parts = 4;
    static constexpr int int8_parts = 2;
    static constexpr int int4_order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    static constexpr int int8_order[4] = {0, 2, 1, 3};
    static constexpr bool int4_is_shifted = false;
    static constexpr bool x_is_shifted = false;
    static Sum no_sums() { return _mm256_setzero_si256(); }
    static F to_float(Sum sum) { return _mm256_cvtepi32_ps(sum); }
    template <int part>
    static Words int4_weights(Words words) {
        const __m256i field =
            _mm256_and_si256(_mm256_srli_epi16(words, 4 * part), _mm256_set1_epi16(15));
        return _mm256_sub_epi16(field, _mm256_set1_epi16(8));
    }
    template <int part>
    static Words int8_weights(Words words) {
        return _mm256_srai_epi16(_mm256_slli_epi16(words, 8 - 8 * part), 8);
    }
    static void add_int4(Words weights, const X* x, Sum& sum) { add_pairs(weights, x, sum); }
    static void add_int8(Words weights, const X* x, Sum& sum) { add_pairs(weights, x, sum); }

  private:
    static __m256i set(int value) { return _mm256_set1_epi32(value); }
    static F with_sign(__m256 magnitude, __m256i sign_on_top) {
        const __m256i sign = _mm256_and_si256(sign_on_top, set(static_cast<int>(0x80000000u)));
        return _mm256_or_ps(magnitude, _mm256_castsi256_ps(sign));
    }
    static void add_pairs(__m256i weights, const X* x, Sum& sum) {
        int32_t pair;
        std::memcpy(&pair, x, sizeof(pair));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(weights, set(pair)));
        // Or gcc 12 makes many products before it adds the first, and stores sums meanwhile.
        Avx2::hold_in_register(sum);
    }
};

// 4-bit weights by bytes of x, twice as many at once as by 16 bits. Weights are unsigned, 8 above
// what they are. Of 8 bits they would be too large: pairs of their products need more than 16 bits.
struct Avx2Integers : Avx2Dequantizer {
    using X = int8_t;
    static constexpr int int4_parts = 2;
    static constexpr int int4_order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    static constexpr bool int4_is_shifted = true;
    // Sums of 16 bits hold four steps of two pairs: 16 * 15 * 128 < 2^15.
    static constexpr int short_steps = 4;
    static Sum set_sums(int32_t value) { return _mm256_set1_epi32(value); }
    template <int part>
    static Words int4_weights(Words words) {
        return _mm256_and_si256(_mm256_srli_epi16(words, 4 * part), _mm256_set1_epi8(15));
    }
    static void add_int4(Words weights, const X* x, Sum& sum) {
        int32_t four;
        std::memcpy(&four, x, sizeof(four));
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, _mm256_set1_epi32(four)));
        Avx2::hold_in_register(sum);
    }
    // Both 16-bit sums of each column.
    static void add_short(Sum few, Sum& sum) {
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(few, _mm256_set1_epi16(1)));
    }
};

}  // namespace nvllm::cpu
