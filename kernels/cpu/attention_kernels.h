// Tile kernels of attention: products with ascending sums, the running softmax.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace nvllm::cpu {

template <class S>
struct AttentionKernels {
    using F = typename S::F;
    using Math = VectorMath<S>;
    static constexpr int64_t L = S::lanes;
    static constexpr int64_t kTile = 64;
    static constexpr int kVectors = kTile / L;
    static constexpr float kLog2OfE = 1.44269504f;

    static void outer_product(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                              float* c, int64_t c_stride, int64_t rows, int64_t depth,
                              int64_t width, const float* factor) {
        constexpr int64_t block = S::outer_vectors * L;
        for (int64_t row = 0; row < rows; row += S::outer_rows) {
            const int64_t count = rows - row < S::outer_rows ? rows - row : S::outer_rows;
            const float* row_factor = factor == nullptr ? nullptr : factor + row;
            const float* row_a = a + row * a_stride;
            float* row_c = c + row * c_stride;
            int64_t column = 0;
            for (; column + block <= width; column += block) {
                outer_rows<S::outer_rows, S::outer_vectors>(count, row_a, a_stride, b + column,
                                                            b_stride, row_c + column, c_stride,
                                                            depth, row_factor);
            }
            for (; column < width; column += L) {
                outer_rows<S::outer_rows, 1>(count, row_a, a_stride, b + column, b_stride,
                                             row_c + column, c_stride, depth, row_factor);
            }
        }
    }

    // One step of the online softmax (Milakov & Gimelshein 2018). The maximum starts at the lowest
    // finite value, so that a tile in which nothing is visible changes nothing and needs no case of
    // its own.
    static void softmax_tile(const SoftmaxTile& tile) {
        for (int64_t row = 0; row < tile.rows; ++row) tile.correction[row] = scale_row(tile, row);
        int64_t row = 0;
        for (; row + L <= tile.rows; row += L) raise_maximum(tile, row, L);
        if (row < tile.rows) raise_maximum(tile, row, tile.rows - row);
        for (row = 0; row < tile.rows; ++row) add_row(tile, row);
    }

  private:
    template <int rows, int vectors>
    static void outer_rows(int64_t wanted, const float* a, int64_t a_stride, const float* b,
                           int64_t b_stride, float* c, int64_t c_stride, int64_t depth,
                           const float* factor) {
        if constexpr (rows > 0) {
            if (wanted == rows) {
                outer_tile<rows, vectors>(a, a_stride, b, b_stride, c, c_stride, depth, factor);
            } else {
                outer_rows<rows - 1, vectors>(wanted, a, a_stride, b, b_stride, c, c_stride, depth,
                                              factor);
            }
        }
    }

    template <int rows, int vectors>
    static void outer_tile(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                           float* c, int64_t c_stride, int64_t depth, const float* factor) {
        F total[rows][vectors];
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                total[r][v] = factor == nullptr
                                  ? S::zero()
                                  : S::mul(S::load(c + r * c_stride + v * L), S::set(factor[r]));
            }
        }
        for (int64_t k = 0; k < depth; ++k, b += b_stride) {
            F right[vectors];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) right[v] = S::load(b + v * L);
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                const F left = S::set(a[r * a_stride + k]);
#pragma GCC unroll 8
                for (int v = 0; v < vectors; ++v) total[r][v] = S::fma(left, right[v], total[r][v]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) S::store(c + r * c_stride + v * L, total[r][v]);
        }
    }

    // Scores as they are compared, as powers of two, minus infinity where nothing is to be seen;
    // their maximum.
    static float scale_row(const SoftmaxTile& tile, int64_t row) {
        float* scores = tile.scores + row * kTile;
        const bool sees_all = tile.begin[row] <= 0 && tile.end[row] >= kTile;
        const F scale = S::set(tile.scale);
        const F scale_to_two = S::set(tile.scale * kLog2OfE);
        const F hidden = S::set(-__builtin_inff());
        const F begin = S::set(static_cast<float>(tile.begin[row]));
        const F end = S::set(static_cast<float>(tile.end[row]));
        F most = hidden;
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
            F score = S::load(scores + v * L);
            score = tile.soft_cap > 0 ? capped(S::mul(score, scale), tile.soft_cap)
                                      : S::mul(score, scale_to_two);
            if (!sees_all) {
                const F position = S::add(S::lane_indices(), S::set(static_cast<float>(v * L)));
                score = S::select_less(position, begin, hidden, score);
                score = S::select_less(position, end, score, hidden);
            }
            S::store(scores + v * L, score);
            most = S::max(most, score);
        }
        return S::reduce_max(most);
    }

    // Of `count` rows, from the tile's own maximum, which stands where the correction will.
    static void raise_maximum(const SoftmaxTile& tile, int64_t row, int64_t count) {
        const F before = S::load(tile.maximum + row, count);
        const F own = S::load(tile.correction + row, count);
        const F maximum = S::select_less(before, own, own, before);
        S::store(tile.maximum + row, maximum, count);
        S::store(tile.correction + row, Math::exp2_of_negative(S::sub(before, maximum)), count);
    }

    // The sum is a balanced tree over the 64 positions: l with l + 32, and so on down, the same on
    // every instruction set.
    static void add_row(const SoftmaxTile& tile, int64_t row) {
        float* scores = tile.scores + row * kTile;
        const F maximum = S::set(tile.maximum[row]);
        F values[kVectors];
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
            values[v] = Math::exp2_of_negative(S::sub(S::load(scores + v * L), maximum));
            S::store(scores + v * L, values[v]);
        }
#pragma GCC unroll 4
        for (int width = kVectors / 2; width > 0; width /= 2) {
#pragma GCC unroll 8
            for (int v = 0; v < width; ++v) values[v] = S::add(values[v], values[v + width]);
        }
        tile.denominator[row] =
            tile.denominator[row] * tile.correction[row] + S::reduce_add(values[0]);
    }

    static F capped(F score, float cap) {
        const F limit = S::set(cap);
        return S::mul(S::set(cap * kLog2OfE), Math::tanh(S::div(score, limit)));
    }
};

}  // namespace nvllm::cpu
