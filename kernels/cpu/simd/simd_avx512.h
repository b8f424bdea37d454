// Sixteen float32 lanes with AVX-512 F, BW, DQ and VL. Names as in simd_scalar.h.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns about its own _mm512_undefined_* wherever an intrinsic is inlined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>

#include "kernels/types.h"

namespace nvllm::cpu {

struct Avx512 {
    static constexpr int lanes = 16;
    static constexpr bool fma_rounds_once = true;
    static constexpr int tile_rows = 6;
    static constexpr bool multiplies_by_columns = false;
    static constexpr int outer_rows = 6;
    static constexpr int outer_vectors = 4;

    using F = __m512;
    using Four = __m128;

    static F zero() { return _mm512_setzero_ps(); }
    static F set(float x) { return _mm512_set1_ps(x); }
    static F lane_indices() {
        return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    }

    static F load(const float* p) { return _mm512_loadu_ps(p); }
    static F load(const BFloat16* p) {
        return upcast_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static F load(const Float16* p) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static F load(const Float8E4M3* p) {
        return upcast_f8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static F load(const int8_t* p) {
        return upcast_i8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static F load(const float* p, int64_t count) { return _mm512_maskz_loadu_ps(mask(count), p); }
    static F load(const BFloat16* p, int64_t count) {
        return upcast_bf16(_mm256_maskz_loadu_epi16(mask(count), p));
    }
    static F load(const Float16* p, int64_t count) {
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask(count), p));
    }
    static F load(const Float8E4M3* p, int64_t count) {
        return upcast_f8(_mm_maskz_loadu_epi8(mask(count), p));
    }
    static F load(const int8_t* p, int64_t count) {
        return upcast_i8(_mm_maskz_loadu_epi8(mask(count), p));
    }
    static F load_even(const BFloat16* p) {
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
    }
    static F load_odd(const BFloat16* p) {
        // A masked load rather than an and: it needs no vector register for the mask, and matmul's
        // tile needs all of them.
        return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(0xaaaaaaaa, p));
    }
    static F load_even(const float* p) {
        return _mm512_permutex2var_ps(load(p), pair_index(0), load(p + 16));
    }
    static F load_odd(const float* p) {
        return _mm512_permutex2var_ps(load(p), pair_index(1), load(p + 16));
    }
    static void load_pairs(const BFloat16* p, int64_t count, BFloat16* out) {
        const auto wide = static_cast<__mmask32>((uint64_t{1} << count) - 1);
        _mm512_storeu_si512(out, _mm512_maskz_loadu_epi16(wide, p));
    }

    static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
    static void store(BFloat16* p, F x) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(x));
    }
    static void store(Float16* p, F x) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_f16(x));
    }
    static void store(Float8E4M3* p, F x) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_f8(x));
    }
    static void store(int8_t* p, F x) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_i8(x));
    }
    static void store(float* p, F x, int64_t count) { _mm512_mask_storeu_ps(p, mask(count), x); }
    static void store(BFloat16* p, F x, int64_t count) {
        _mm256_mask_storeu_epi16(p, mask(count), narrow_bf16(x));
    }
    static void store(Float16* p, F x, int64_t count) {
        _mm256_mask_storeu_epi16(p, mask(count), narrow_f16(x));
    }
    static void store(Float8E4M3* p, F x, int64_t count) {
        _mm_mask_storeu_epi8(p, mask(count), narrow_f8(x));
    }
    static void store(int8_t* p, F x, int64_t count) {
        _mm_mask_storeu_epi8(p, mask(count), narrow_i8(x));
    }

    static F round_to(const float*, F x) { return x; }
    static F round_to(const BFloat16*, F x) { return upcast_bf16(narrow_bf16(x)); }
    static F round_to(const Float16*, F x) { return _mm512_cvtph_ps(narrow_f16(x)); }

    template <typename Vector>
    static void hold_in_register(Vector& x) {
        asm("" : "+v"(x));
    }

    static F add(F a, F b) { return _mm512_add_ps(a, b); }
    static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
    static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
    static F div(F a, F b) { return _mm512_div_ps(a, b); }
    static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
    static F max(F a, F b) { return _mm512_max_ps(a, b); }
    static F min(F a, F b) { return _mm512_min_ps(a, b); }
    static F select_less(F a, F b, F yes, F no) {
        return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
    }
    static F abs(F x) { return _mm512_abs_ps(x); }
    static F copy_sign(F x, F y) {
        const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
        return _mm512_or_ps(abs(x),
                            _mm512_castsi512_ps(_mm512_and_epi32(sign, _mm512_castps_si512(y))));
    }
    static F round(F x) {
        return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    static F add_to_exponent(F x, F n) {
        return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x),
                                                    _mm512_slli_epi32(_mm512_castps_si512(n), 23)));
    }
    static F scale_by_power_of_two(F x, F n) { return _mm512_scalef_ps(x, n); }

    static float reduce_add(F x) {
        const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
        __m128 sum = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
        return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
    }
    static float reduce_max(F x) {
        const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
        __m128 most = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        most = _mm_max_ps(most, _mm_movehl_ps(most, most));
        return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
    }
    static Four reduce_add4(F a, F b, F c, F d) {
        // One sum in each quarter.
        F sum = add_quarters(add_halves(a, b), add_halves(c, d));
        sum = add(sum, _mm512_permute_ps(sum, 0x4e));
        sum = add(sum, _mm512_permute_ps(sum, 0xb1));
        const __m512i quarters = _mm512_setr_epi32(0, 8, 4, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        return _mm512_castps512_ps128(_mm512_permutexvar_ps(quarters, sum));
    }

  private:
    // The halves of a added, then those of b; and the quarters of each half so. What stays in its
    // place is blended: only one port shuffles, and it is needed for multiplying too.
    static F add_halves(F a, F b) {
        return add(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
    }
    static F add_quarters(F a, F b) {
        const __m512i others =
            _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
        return add(_mm512_mask_blend_ps(0xf0f0, a, b), _mm512_permutex2var_ps(a, others, b));
    }
    static __mmask16 mask(int64_t count) {
        return static_cast<__mmask16>((1u << static_cast<unsigned>(count)) - 1u);
    }
    static __m512i pair_index(int first) {
        const __m512i even =
            _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        return _mm512_add_epi32(even, _mm512_set1_epi32(first));
    }
    static F upcast_bf16(__m256i bits) {
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    }
    // To nearest even; a NaN stays one, as in BFloat16.
    static __m256i narrow_bf16(F x) {
        const __m512i raw = _mm512_castps_si512(x);
        const __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(raw, 16), _mm512_set1_epi32(1));
        const __m512i rounded =
            _mm512_add_epi32(raw, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
        const __m512i quiet = _mm512_or_epi32(raw, _mm512_set1_epi32(0x400000));
        const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        const __m512i bits = _mm512_mask_blend_epi32(is_nan, rounded, quiet);
        return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
    }
    static __m256i narrow_f16(F x) {
        return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    // As a float16 with the exponent's bias eight too small, so that subnormals are none of
    // float32's; NaN, all ones, gets float16's exponent of NaN.
    static F upcast_f8(__m128i bytes) {
        const __m256i shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7);
        const __m256i half =
            _mm256_and_si256(shifted, _mm256_set1_epi16(static_cast<int16_t>(0xbfff)));
        const __m256i magnitude = _mm256_and_si256(half, _mm256_set1_epi16(0x3fff));
        const __mmask16 is_nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x3f80));
        const __m256i fixed = _mm256_mask_add_epi16(half, is_nan, half, _mm256_set1_epi16(0x4000));
        return _mm512_mul_ps(_mm512_cvtph_ps(fixed), _mm512_set1_ps(256.0f));
    }
    static F upcast_i8(__m128i bytes) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)); }
    // As Float8E4M3 does it.
    static __m128i narrow_f8(F x) {
        const __m512i raw = _mm512_castps_si512(x);
        const __m512i magnitude = _mm512_and_epi32(raw, _mm512_set1_epi32(0x7fffffff));
        const __m512i within = _mm512_min_epi32(magnitude, _mm512_set1_epi32(0x43e00000));
        const __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(within, 20), _mm512_set1_epi32(1));
        const __m512i rounded = _mm512_srli_epi32(
            _mm512_add_epi32(_mm512_sub_epi32(within, _mm512_set1_epi32(0x3c000000 - 0x7ffff)),
                             odd),
            20);
        const __m512i small = _mm512_sub_epi32(
            _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(within), set(16384.0f))),
            _mm512_set1_epi32(0x46800000));
        const __mmask16 is_small = _mm512_cmplt_epi32_mask(within, _mm512_set1_epi32(0x3c800000));
        const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
        __m512i bits = _mm512_mask_blend_epi32(is_small, rounded, small);
        bits = _mm512_mask_blend_epi32(is_nan, bits, _mm512_set1_epi32(0x7f));
        const __m512i sign = _mm512_and_epi32(_mm512_srli_epi32(raw, 24), _mm512_set1_epi32(0x80));
        return _mm512_cvtepi32_epi8(_mm512_or_epi32(bits, sign));
    }
    static __m128i narrow_i8(F x) { return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)); }
};

}  // namespace nvllm::cpu
