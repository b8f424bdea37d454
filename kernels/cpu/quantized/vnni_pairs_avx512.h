// Quantized weights as pairs of bfloat16, with AVX-512 BF16, and rows of x in their order.
#pragma once

#include <cstring>

#include "kernels/cpu/quantized/dequantize_avx512.h"
#include "kernels/cpu/quantized/quantized_parts.h"
#include "kernels/cpu/simd/kernels.h"

namespace nvllm::cpu {

// Bit patterns of bfloat16, by code; twice, because a permutation looks at the lowest five bits.
struct Int4Values {
    static __m512i table() {
        const __m256i values = _mm256_setr_epi16(
            static_cast<short>(0xc100), static_cast<short>(0xc0e0), static_cast<short>(0xc0c0),
            static_cast<short>(0xc0a0), static_cast<short>(0xc080), static_cast<short>(0xc040),
            static_cast<short>(0xc000), static_cast<short>(0xbf80), 0x0000, 0x3f80, 0x4000, 0x4040,
            0x4080, 0x40a0, 0x40c0, 0x40e0);
        return _mm512_broadcast_i64x4(values);
    }
};
struct Float4Values {
    static __m512i table() {
        const __m256i values = _mm256_setr_epi16(
            0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0,
            static_cast<short>(0x8000), static_cast<short>(0xbf00), static_cast<short>(0xbf80),
            static_cast<short>(0xbfc0), static_cast<short>(0xc000), static_cast<short>(0xc040),
            static_cast<short>(0xc080), static_cast<short>(0xc0c0));
        return _mm512_broadcast_i64x4(values);
    }
};

// Quantized values as bfloat16, which holds all of their values; those of one word that are
// multiplied together are a pair: of 4 bits i and i + 4, of 8 bits i and i + 2.
struct VnniPairs : FloatSums<Avx512Dequantizer> {
    using X = BFloat16;

  protected:
    static void add_pair(Words weights, const X* x, Sum& sum) {
        int32_t pair;
        std::memcpy(&pair, x, sizeof(pair));
        sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair)),
                               reinterpret_cast<__m512bh>(weights));
    }
};

// Of any 4-bit code: words of float4 lie as those of int4 do.
template <class Values>
struct NibbleVnniPairs : VnniPairs {
    template <int part>
    static Words int4_weights(Words words) {
        return _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4 * part), Values::table());
    }
    static void add_int4(Words weights, const X* x, Sum& sum) { add_pair(weights, x, sum); }
};

// Words of float8 lie as those of int8 do.
struct Float8VnniPairs : VnniPairs {
    template <int part>
    static Words int8_weights(Words words) {
        const __m512i code = _mm512_srli_epi16(words, 8 * part);
        const __m512i magnitude = _mm512_and_si512(code, _mm512_set1_epi16(127));
        const __m512i normal =
            _mm512_add_epi16(_mm512_slli_epi16(magnitude, 4), _mm512_set1_epi16(120 << 7));
        // 0 to 7 times 2^-9, by the lowest bits; a permutation looks at five.
        const __m512i small = _mm512_broadcast_i32x4(
            _mm_setr_epi16(0x0000, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60));
        const __mmask32 is_small = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(8));
        const __m512i value = _mm512_mask_permutexvar_epi16(normal, is_small, magnitude, small);
        // value | (code << 8 & 0x8000)
        return _mm512_ternarylogic_epi32(value, _mm512_slli_epi16(code, 8),
                                         _mm512_set1_epi16(static_cast<short>(0x8000)), 0xf8);
    }
    static void add_int8(Words weights, const X* x, Sum& sum) { add_pair(weights, x, sum); }
};

// Both values that are kept of four are a pair; those of x are put beside one another as they are.
template <ops::WeightFormat code>
struct SparseVnniPairs : SparseParts<Avx512Dequantizer, code> {
    using X = BFloat16;
    struct Weights {
        __m512i pair, order;
    };

    template <int part>
    static Weights weights(const uint32_t* at, int) {
        // The bytes of x by two places; a permutation looks at the lowest four bits.
        const __m512i bytes = _mm512_setr_epi32(0x01000100, 0x01000302, 0x01000504, 0x01000706,
                                                0x03020100, 0x03020302, 0x03020504, 0x03020706,
                                                0x05040100, 0x05040302, 0x05040504, 0x05040706,
                                                0x07060100, 0x07060302, 0x07060504, 0x07060706);
        const __m512i places = _mm512_srli_epi32(Avx512Dequantizer::load(at), 4 * part);
        return {kept<part>(at), _mm512_permutexvar_epi32(places, bytes)};
    }
    static void add(const Weights& kept, const X* x, __m512& sum) {
        int64_t four;
        std::memcpy(&four, x, sizeof(four));
        const __m512i chosen = _mm512_shuffle_epi8(_mm512_set1_epi64(four), kept.order);
        sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(chosen),
                               reinterpret_cast<__m512bh>(kept.pair));
    }
    // Both values of each column.
    template <int part>
    static __m512i kept(const uint32_t* at) {
        if constexpr (code == ops::WeightFormat::sparse_float8) {
            return Float8VnniPairs::int8_weights<part % 2>(
                Avx512Dequantizer::load(at + (1 + part / 2) * kPanelColumns));
        } else {
            return Avx512Dequantizer::load(at + (1 + part) * kPanelColumns);
        }
    }
};

// Rounded to nearest even, sixteen values in this order; count is a multiple of 8.
inline void arrange_pairs(const float* x, int64_t count, __m256i order, void* arranged) {
    auto* out = static_cast<BFloat16*>(arranged);
    for (int64_t k = 0; k < count; k += 16) {
        const int64_t left = count - k < 16 ? 8 : 16;
        alignas(32) BFloat16 narrow[16];
        Avx512::store(narrow, Avx512::load(x + k, left));
        const __m256i values = _mm256_load_si256(reinterpret_cast<const __m256i*>(narrow));
        _mm256_mask_storeu_epi16(out + k, static_cast<__mmask16>((1u << left) - 1),
                                 _mm256_permutexvar_epi16(order, values));
    }
}

inline void arrange_for_nibbles(const float* x, int64_t count, void* arranged) {
    arrange_pairs(x, count, _mm256_setr_epi16(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15),
                  arranged);
}

inline void arrange_for_bytes(const float* x, int64_t count, void* arranged) {
    arrange_pairs(x, count, _mm256_setr_epi16(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15),
                  arranged);
}

inline void arrange_as_they_are(const float* x, int64_t count, void* arranged) {
    avx512_kernels().narrow[static_cast<size_t>(FloatType::bf16)](x, arranged, count);
}

}  // namespace nvllm::cpu
