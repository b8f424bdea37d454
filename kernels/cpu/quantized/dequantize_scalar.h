// Quantized weights in 32-bit words to float32 lanes: in plain C++, and the pattern for the other
// instruction sets.
//
// A panel is 16 columns of a quantized matrix. Its words come in rows of 16, one for each column,
// with eight 4-bit or four 8-bit quantized values of rising k, lowest bits first.
#pragma once

#include <cstring>

#include "kernels/cpu/simd/simd_scalar.h"
#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cpu {

constexpr int kPanelColumns = 16;

// Values of k of a sparse matrix whose places are one word, and the words of a column for so many.
constexpr int kSparseDepth = 32;
constexpr int sparse_words(ops::WeightFormat code) {
    return code == ops::WeightFormat::sparse_float8 ? 5 : 9;
}

struct ScalarDequantizer {
    using Simd = Scalar;
    using F = Scalar::F;
    using Words = Scalar::Int;

    static Words load(const uint32_t* p) {
        Words words;
        std::memcpy(&words, p, sizeof(words));
        return words;
    }
    // Code `index` of each word, as a signed integer.
    template <int index>
    static F int4(Words words) {
        return __builtin_convertvector(((words >> (4 * index)) & 15) - 8, F);
    }
    template <int index>
    static F int8(Words words) {
        return __builtin_convertvector((words << (24 - 8 * index)) >> 24, F);
    }
    template <int index>
    static F float4(Words words) {
        return each(words >> (4 * index), [](uint32_t code) {
            constexpr float values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                          -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
            return values[code & 15];
        });
    }
    template <int index>
    static F float8(Words words) {
        const Words code = words >> (8 * index);
        const Words magnitude = code & 127;
        // Below 8 there is no exponent: a multiple of 2^-9.
        const F subnormal = __builtin_convertvector(magnitude, F) * 0x1p-9f;
        const Words normal = (magnitude << 20) + (120 << 23);
        const Words is_normal = magnitude > 7;
        const Words bits = (is_normal & normal) | (~is_normal & reinterpret_cast<Words>(subnormal));
        return reinterpret_cast<F>(bits | ((code & 128) << 24));
    }
    template <int bits>
    static Words shifted_right(Words words) {
        return words >> bits;
    }
    // Of four values the one that the lowest two bits of each word name.
    static F choose(const float* four, Words words) {
        return each(words, [&](uint32_t place) { return four[place & 3]; });
    }
    // As many small integers as there are lanes.
    static F small(const int8_t* p) {
        return F{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
                 static_cast<float>(p[3])};
    }

    // Integer sums, of one column in each lane. Words hold several quantized values of a column
    // beside one another, as many as x has quantized values to be multiplied by them: x is arranged
    // in the order in which the parts of a word give those of the weights.
    using Sum = Scalar::Int;
    using X = int16_t;
    static constexpr int int4_parts = 4;
    static constexpr int int8_parts = 2;
    static constexpr int int4_order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    static constexpr int int8_order[4] = {0, 2, 1, 3};
    // Whether quantized values of weights (x) are multiplied as unsigned, 8 (128) above what they
    // are.
    static constexpr bool int4_is_shifted = false;
    static constexpr bool x_is_shifted = false;
    static Sum no_sums() { return Sum{}; }
    static F to_float(Sum sum) { return __builtin_convertvector(sum, F); }
    template <int part>
    static Words int4_weights(Words words) {
        return (words >> (4 * part)) & 0x000f000f;
    }
    template <int part>
    static Words int8_weights(Words words) {
        return words << (8 - 8 * part);
    }
    static void add_int4(Words weights, const X* x, Sum& sum) {
        sum += ((weights & 15) - 8) * x[0] + ((weights >> 16) - 8) * x[1];
    }
    static void add_int8(Words weights, const X* x, Sum& sum) {
        sum += ((weights << 16) >> 24) * x[0] + (weights >> 24) * x[1];
    }

  private:
    template <typename Function>
    static F each(Words words, Function function) {
        F result;
        for (int i = 0; i < Scalar::lanes; ++i)
            result[i] = function(static_cast<uint32_t>(words[i]));
        return result;
    }
};

}  // namespace nvllm::cpu
