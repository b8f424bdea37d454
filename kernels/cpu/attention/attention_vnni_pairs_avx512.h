// Keys and values of attention as words of two bfloat16, with AVX-512 BF16.
#pragma once

#include "kernels/cpu/simd/simd_avx512.h"

namespace nvllm::cpu {

// Keys meet by neighbouring dimensions, values by neighbouring positions.
struct AttentionVnniPairs {
    using Simd = Avx512;
    using Value = BFloat16;
    using F = Avx512::F;
    static constexpr int64_t step = 2;

    static F load(const BFloat16* p, ptrdiff_t stride) { return joined(half(p), half(p + stride)); }
    static F load(const BFloat16* p, ptrdiff_t stride, int64_t count) {
        const auto mask = static_cast<__mmask16>((1u << count) - 1);
        return joined(_mm256_maskz_loadu_epi16(mask, p),
                      _mm256_maskz_loadu_epi16(mask, p + stride));
    }
    static F multiply_add(F left, F right, F sum) {
        return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(left),
                                reinterpret_cast<__m512bh>(right));
    }
    static void pack(float* rows, int64_t stride, int64_t num_rows, int64_t count) {
        for (int64_t row = 0; row < num_rows; ++row, rows += stride) {
            auto* out = reinterpret_cast<BFloat16*>(rows);
            for (int64_t i = 0; i < count; i += 16) {
                const int64_t left = count - i < 16 ? count - i : 16;
                const auto mask = static_cast<__mmask16>((1u << left) - 1);
                const __m256bh narrow = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, rows + i));
                _mm256_mask_storeu_epi16(out + i, mask, reinterpret_cast<__m256i>(narrow));
            }
        }
    }

  private:
    static __m256i half(const BFloat16* p) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    }
    // Lane by lane a value of the first, then one of the second.
    static F joined(__m256i first, __m256i second) {
        const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
        return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order(), both));
    }
    static __m512i order() {
        const __m512i lanes =
            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        return _mm512_or_epi32(
            lanes, _mm512_slli_epi32(_mm512_add_epi32(lanes, _mm512_set1_epi32(16)), 16));
    }
};

}  // namespace nvllm::cpu
