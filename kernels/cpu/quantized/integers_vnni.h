// Integer quantized values as AVX-512 VNNI multiplies them: four products of bytes are added into
// each lane.
#pragma once

#include <cstring>

#include "kernels/cpu/quantized/dequantize_avx512.h"

namespace nvllm::cpu {

// One factor is unsigned: of 4-bit weights the weight, 8 above what it is; else x, 128 above.
struct VnniIntegers : Avx512Dequantizer {
    using X = int8_t;
    // Not __m512i, whose lanes are of 64 bits: for each change of lanes gcc 12 copies the sum to
    // another register, and then has too few.
    using Sum = int32_t __attribute__((vector_size(64)));
    static constexpr int int4_parts = 2;
    static constexpr int int8_parts = 1;
    static constexpr int int4_order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    static constexpr int int8_order[4] = {0, 1, 2, 3};
    static constexpr bool int4_is_shifted = true;
    static constexpr bool x_is_shifted = true;
    static Sum no_sums() { return Sum{}; }
    static F to_float(Sum sum) { return _mm512_cvtepi32_ps(reinterpret_cast<__m512i>(sum)); }
    static Sum set_sums(int32_t value) { return reinterpret_cast<Sum>(_mm512_set1_epi32(value)); }
    static Sum load_sums(const int32_t* p) { return reinterpret_cast<Sum>(_mm512_loadu_si512(p)); }
    template <int part>
    static Words int4_weights(Words words) {
        return _mm512_and_si512(_mm512_srli_epi32(words, 4 * part), _mm512_set1_epi8(15));
    }
    // Of each byte.
    static Words less_eight(Words words) { return _mm512_sub_epi8(words, _mm512_set1_epi8(8)); }
    template <int part>
    static Words int8_weights(Words words) {
        return words;
    }
    static void add_int4(Words weights, const X* x, Sum& sum) { add(weights, four(x), sum); }
    static void add_int8(Words weights, const X* x, Sum& sum) { add(four(x), weights, sum); }

  private:
    static void add(__m512i unsigned_values, __m512i codes, Sum& sum) {
        sum = reinterpret_cast<Sum>(
            _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), unsigned_values, codes));
    }
    static __m512i four(const X* x) {
        int32_t codes;
        std::memcpy(&codes, x, sizeof(codes));
        return _mm512_set1_epi32(codes);
    }
};

}  // namespace nvllm::cpu
