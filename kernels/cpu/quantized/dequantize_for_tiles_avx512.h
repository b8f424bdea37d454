// Quantized weights as pairs of bfloat16 for tiles, with AVX-512 BF16 and VNNI.
//
// Of sixteen columns, one in each word: `words` rows of such words hold `depth` values of k, which
// become `parts` rows of pairs.
#pragma once

#include "kernels/cpu/quantized/vnni_pairs_avx512.h"

namespace nvllm::cpu {

// P: parts that are pairs already.
template <class P>
struct DequantizedParts {
    static constexpr int depth = P::depth;
    static constexpr int words = P::words;
    static constexpr int parts = P::parts;

    explicit DequantizedParts(const int8_t*) {}
    template <int part>
    __m512i pair(const uint32_t* at) const {
        return P::template weights<part>(at, 0);
    }
};

// Integers of 8 bits: bfloat16 holds them, as the upper half of float32.
struct DequantizedInt8 {
    static constexpr int depth = 4;
    static constexpr int words = 1;
    static constexpr int parts = 2;

    explicit DequantizedInt8(const int8_t*) {}
    template <int part>
    __m512i pair(const uint32_t* at) const {
        const __m512i codes = _mm512_loadu_si512(at);
        return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(dequantized<part>(codes), 16),
                                       dequantized<part + 2>(codes));
    }

  private:
    // Byte `index` of each word, times one and added to zero: shorter than two shifts.
    template <int index>
    static __m512i dequantized(__m512i codes) {
        const __m512i value =
            _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi32(1 << (8 * index)), codes);
        return _mm512_castps_si512(_mm512_cvtepi32_ps(value));
    }
};

// Integers of 4 bits without their zero points: differences of 5 bits.
class DequantizedDifferences {
  public:
    static constexpr int depth = 8;
    static constexpr int words = 1;
    static constexpr int parts = 4;

    explicit DequantizedDifferences(const int8_t* zero_points) {
        // As quantized values are stored, 8 above what they are.
        const __m512i stored = _mm512_add_epi32(
            _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(zero_points))),
            _mm512_set1_epi32(8));
        zero_points_ = _mm512_mask_blend_epi16(0xaaaaaaaa, stored, _mm512_slli_epi32(stored, 16));
    }
    template <int part>
    __m512i pair(const uint32_t* at) const {
        // By the lowest five bits: 0 to 15, then -16 to -1.
        alignas(64) static constexpr uint16_t values[32] = {
            0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120,
            0x4130, 0x4140, 0x4150, 0x4160, 0x4170, 0xc180, 0xc170, 0xc160, 0xc150, 0xc140, 0xc130,
            0xc120, 0xc110, 0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80};
        const __m512i code = _mm512_and_si512(
            _mm512_srli_epi16(Avx512Dequantizer::load(at), 4 * part), _mm512_set1_epi16(15));
        return _mm512_permutexvar_epi16(_mm512_sub_epi16(code, zero_points_),
                                        _mm512_load_si512(values));
    }

  private:
    __m512i zero_points_;  // in both halves of each word
};

// Of each four values of k two are kept, the others are zeros.
template <ops::WeightFormat code>
struct DequantizedSparsePairs {
    static constexpr int depth = kSparseDepth;
    static constexpr int words = sparse_words(code);
    static constexpr int parts = kSparseDepth / 2;

    explicit DequantizedSparsePairs(const int8_t*) {}
    template <int part>
    __m512i pair(const uint32_t* at) const {
        // Which bytes of what is kept come into this pair, by both places; 0x80: a zero.
        alignas(64) static constexpr uint32_t orders[2][16] = {
            {0x80800100, 0x01000302, 0x80800302, 0x80800302, 0x03020100, 0x01008080, 0x03028080,
             0x03028080, 0x80800100, 0x01008080, 0x80808080, 0x80808080, 0x80800100, 0x01008080,
             0x80808080, 0x80808080},
            {0x80808080, 0x80808080, 0x80800100, 0x01008080, 0x80808080, 0x80808080, 0x80800100,
             0x01008080, 0x80800302, 0x80800302, 0x80800100, 0x01000302, 0x03028080, 0x03028080,
             0x03020100, 0x01008080}};
        const __m512i places = _mm512_srli_epi32(Avx512Dequantizer::load(at), 4 * (part / 2));
        const __m512i order = _mm512_permutexvar_epi32(places, _mm512_load_si512(orders[part % 2]));
        // Bytes are named within 16 of them.
        const __m512i column =
            _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
        return _mm512_shuffle_epi8(SparseVnniPairs<code>::template kept<part / 2>(at),
                                   _mm512_or_si512(order, column));
    }
};

}  // namespace nvllm::cpu
