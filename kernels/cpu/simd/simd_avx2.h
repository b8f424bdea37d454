// Eight float32 lanes with AVX2, FMA and F16C. Names as in simd_scalar.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/types.h"

namespace nvllm::cpu {

struct Avx2 {
    static constexpr int lanes = 8;
    static constexpr bool fma_rounds_once = true;
    static constexpr int tile_rows = 3;
    static constexpr bool multiplies_by_columns = true;
    static constexpr int outer_rows = 6;
    static constexpr int outer_vectors = 2;

    using F = __m256;
    using Four = __m128;

    static F zero() { return _mm256_setzero_ps(); }
    static F set(float x) { return _mm256_set1_ps(x); }
    static F lane_indices() { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }

    static F load(const float* p) { return _mm256_loadu_ps(p); }
    static F load(const BFloat16* p) {
        return upcast_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static F load(const Float16* p) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static F load(const Float8E4M3* p) {
        return upcast_f8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    }
    static F load(const int8_t* p) {
        return upcast_i8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    }
    static F load(const float* p, int64_t count) { return _mm256_maskload_ps(p, mask(count)); }
    static F load(const BFloat16* p, int64_t count) { return upcast_bf16(load_halves(p, count)); }
    static F load(const Float16* p, int64_t count) {
        return _mm256_cvtph_ps(load_halves(p, count));
    }
    static F load(const Float8E4M3* p, int64_t count) { return upcast_f8(load_bytes(p, count)); }
    static F load(const int8_t* p, int64_t count) { return upcast_i8(load_bytes(p, count)); }
    static F load_even(const BFloat16* p) { return even_of(load_words(p)); }
    static F load_odd(const BFloat16* p) {
        // Products have no register to spare: the mask comes from memory, and the words anew where
        // the compiler would have kept those of load_even.
        alignas(32) static constexpr uint32_t high[8] = {0xffff0000u, 0xffff0000u, 0xffff0000u,
                                                         0xffff0000u, 0xffff0000u, 0xffff0000u,
                                                         0xffff0000u, 0xffff0000u};
        const auto* words = reinterpret_cast<const __m256i_u*>(p);
        F odd;
        asm("vmovaps %1, %0\n\tvandps %2, %0, %0" : "=x"(odd) : "m"(high), "m"(*words));
        return odd;
    }
    // Pairs of values as words of 32 bits, which may be moved before they are parted.
    static F load_words(const BFloat16* p) { return _mm256_castsi256_ps(load_bits(p)); }
    static F even_of(F words) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(words), 16));
    }
    static F odd_of(F words) {
        return _mm256_and_ps(words,
                             _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xffff0000u))));
    }
    static F load_even(const float* p) {
        return in_order(_mm256_shuffle_ps(load(p), load(p + 8), 0x88));
    }
    static F load_odd(const float* p) {
        return in_order(_mm256_shuffle_ps(load(p), load(p + 8), 0xdd));
    }
    static void load_pairs(const BFloat16* p, int64_t count, BFloat16* out) {
        for (int64_t i = 0; i < 16; ++i) out[i].bits = i < count ? p[i].bits : uint16_t{0};
    }

    static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
    static void store(BFloat16* p, F x) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_bf16(x));
    }
    static void store(Float16* p, F x) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_f16(x));
    }
    static void store(Float8E4M3* p, F x) {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(p), narrow_f8(x));
    }
    static void store(int8_t* p, F x) {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(p), narrow_i8(x));
    }
    static void store(float* p, F x, int64_t count) { _mm256_maskstore_ps(p, mask(count), x); }
    static void store(BFloat16* p, F x, int64_t count) { store_halves(p, narrow_bf16(x), count); }
    static void store(Float16* p, F x, int64_t count) { store_halves(p, narrow_f16(x), count); }
    static void store(Float8E4M3* p, F x, int64_t count) { store_bytes(p, narrow_f8(x), count); }
    static void store(int8_t* p, F x, int64_t count) { store_bytes(p, narrow_i8(x), count); }

    static F round_to(const float*, F x) { return x; }
    static F round_to(const BFloat16*, F x) { return upcast_bf16(narrow_bf16(x)); }
    static F round_to(const Float16*, F x) { return _mm256_cvtph_ps(narrow_f16(x)); }

    template <typename Vector>
    static void hold_in_register(Vector& x) {
        asm("" : "+x"(x));
    }

    static F add(F a, F b) { return _mm256_add_ps(a, b); }
    static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
    static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
    static F div(F a, F b) { return _mm256_div_ps(a, b); }
    static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
    static F max(F a, F b) { return _mm256_max_ps(a, b); }
    static F min(F a, F b) { return _mm256_min_ps(a, b); }
    static F select_less(F a, F b, F yes, F no) {
        return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
    }
    static F abs(F x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
    static F copy_sign(F x, F y) {
        return _mm256_or_ps(abs(x), _mm256_and_ps(_mm256_set1_ps(-0.0f), y));
    }
    static F round(F x) {
        return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    static F add_to_exponent(F x, F n) {
        return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x),
                                                    _mm256_slli_epi32(_mm256_castps_si256(n), 23)));
    }
    static F power_of_two(F n) {
        const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
        return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
    }

    static float reduce_add(F x) {
        __m128 sum = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
        sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
        return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
    }
    static float reduce_max(F x) {
        __m128 most = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
        most = _mm_max_ps(most, _mm_movehl_ps(most, most));
        return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
    }
    static Four reduce_add4(F a, F b, F c, F d) {
        // What stays in its place is blended: fewer ports shuffle than blend.
        const F ab = add_halves(a, b);
        const F cd = add_halves(c, d);
        // [a, a, c, c | b, b, d, d]
        F sum = add(_mm256_blend_ps(ab, cd, 0xcc), _mm256_shuffle_ps(ab, cd, 0x4e));
        sum = add(sum, _mm256_movehdup_ps(sum));
        const __m128 ac = _mm256_castps256_ps128(sum);
        const __m128 bd = _mm256_extractf128_ps(sum, 1);
        // [a, c, b, d] to [a, b, c, d]
        const __m128 all = _mm_shuffle_ps(ac, bd, 0x88);
        return _mm_shuffle_ps(all, all, 0xd8);
    }

    // Vector i gets lane i of each.
    static void transpose(F (&v)[lanes]) {
        F pairs[lanes];
#pragma GCC unroll 4
        for (int i = 0; i < lanes; i += 2) {
            pairs[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
            pairs[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
        }
        F fours[lanes];
#pragma GCC unroll 2
        for (int i = 0; i < lanes; i += 4) {
            fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
            fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
            fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
            fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
        }
#pragma GCC unroll 4
        for (int i = 0; i < lanes / 2; ++i) {
            v[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
            v[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
        }
    }

  private:
    // Both halves of a added, then those of b.
    static F add_halves(F a, F b) {
        return add(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
    }
    static __m256i mask(int64_t count) {
        const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
    }
    static __m256i load_bits(const BFloat16* p) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    }
    // Quarters 0, 2, 1, 3 to 0, 1, 2, 3.
    static F in_order(F x) {
        return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
    }
    static F upcast_bf16(__m128i bits) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    }
    // To nearest even; a NaN stays one, as in BFloat16.
    static __m128i narrow_bf16(F x) {
        const __m256i raw = _mm256_castps_si256(x);
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(raw, 16), _mm256_set1_epi32(1));
        const __m256i rounded =
            _mm256_add_epi32(raw, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        const __m256i quiet = _mm256_or_si256(raw, _mm256_set1_epi32(0x400000));
        const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
        const __m256i bits = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
        return _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    }
    static __m128i narrow_f16(F x) {
        return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    // As a float16 with the exponent's bias eight too small, so that subnormals are none of
    // float32's; NaN, all ones, gets float16's exponent of NaN.
    static F upcast_f8(__m128i bytes) {
        const __m128i shifted = _mm_slli_epi16(_mm_cvtepi8_epi16(bytes), 7);
        const __m128i half = _mm_and_si128(shifted, _mm_set1_epi16(static_cast<int16_t>(0xbfff)));
        const __m128i magnitude = _mm_and_si128(half, _mm_set1_epi16(0x3fff));
        const __m128i is_nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x3f80));
        const __m128i fixed = _mm_or_si128(half, _mm_and_si128(is_nan, _mm_set1_epi16(0x4000)));
        return _mm256_mul_ps(_mm256_cvtph_ps(fixed), _mm256_set1_ps(256.0f));
    }
    static F upcast_i8(__m128i bytes) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)); }
    // As Float8E4M3 does it; in the lower eight bytes.
    static __m128i narrow_f8(F x) {
        const __m256i raw = _mm256_castps_si256(x);
        const __m256i magnitude = _mm256_and_si256(raw, _mm256_set1_epi32(0x7fffffff));
        const __m256i within = _mm256_min_epi32(magnitude, _mm256_set1_epi32(0x43e00000));
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(within, 20), _mm256_set1_epi32(1));
        const __m256i rounded = _mm256_srli_epi32(
            _mm256_add_epi32(_mm256_sub_epi32(within, _mm256_set1_epi32(0x3c000000 - 0x7ffff)),
                             odd),
            20);
        const __m256i small = _mm256_sub_epi32(
            _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(within), set(16384.0f))),
            _mm256_set1_epi32(0x46800000));
        const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x3c800000), within);
        const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
        __m256i bits = _mm256_blendv_epi8(rounded, small, is_small);
        bits = _mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7f), is_nan);
        const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(raw, 24), _mm256_set1_epi32(0x80));
        return low_bytes(_mm256_or_si256(bits, sign));
    }
    static __m128i narrow_i8(F x) {
        return low_bytes(_mm256_and_si256(_mm256_cvtps_epi32(x), _mm256_set1_epi32(0xff)));
    }
    // Eight numbers below 256 as bytes.
    static __m128i low_bytes(__m256i x) {
        const __m128i halves =
            _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
        return _mm_packus_epi16(halves, halves);
    }
    template <typename T>
    static __m128i load_bytes(const T* p, int64_t count) {
        alignas(16) uint8_t bytes[16] = {};
        for (int64_t i = 0; i < count; ++i) bytes[i] = reinterpret_cast<const uint8_t*>(p)[i];
        return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
    }
    template <typename T>
    static void store_bytes(T* p, __m128i bits, int64_t count) {
        alignas(16) uint8_t bytes[16];
        _mm_store_si128(reinterpret_cast<__m128i*>(bytes), bits);
        for (int64_t i = 0; i < count; ++i) reinterpret_cast<uint8_t*>(p)[i] = bytes[i];
    }
    template <typename T>
    static __m128i load_halves(const T* p, int64_t count) {
        alignas(16) uint16_t halves[8] = {};
        for (int64_t i = 0; i < count; ++i) halves[i] = p[i].bits;
        return _mm_load_si128(reinterpret_cast<const __m128i*>(halves));
    }
    template <typename T>
    static void store_halves(T* p, __m128i bits, int64_t count) {
        alignas(16) uint16_t halves[8];
        _mm_store_si128(reinterpret_cast<__m128i*>(halves), bits);
        for (int64_t i = 0; i < count; ++i) p[i].bits = halves[i];
    }
};

}  // namespace nvllm::cpu
