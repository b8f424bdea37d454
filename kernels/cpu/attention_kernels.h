// Tile kernels of attention: products with ascending sums, the running softmax.
#pragma once

#include <cstdint>
#include <type_traits>

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
        for_each_tile_of_rows<S::outer_rows>(rows, [&](int64_t row, auto tile_rows) {
            const float* row_factor = factor == nullptr ? nullptr : factor + row;
            const float* row_a = a + row * a_stride;
            float* row_c = c + row * c_stride;
            int64_t column = 0;
            for (; column + block <= width; column += block) {
                outer_tile<tile_rows(), S::outer_vectors>(row_a, a_stride, b + column, b_stride,
                                                          row_c + column, c_stride, depth,
                                                          row_factor);
            }
            for (; column < width; column += L) {
                outer_tile<tile_rows(), 1>(row_a, a_stride, b + column, b_stride, row_c + column,
                                           c_stride, depth, row_factor);
            }
        });
    }

    template <typename T>
    static void few_scores(const FewScores& few) {
        for_each_tile_of_rows<S::outer_rows>(few.rows, [&](int64_t row, auto rows) {
            int64_t vector = 0;
            for (; vector + S::outer_vectors <= few.vectors; vector += S::outer_vectors) {
                score_tile<T, rows(), S::outer_vectors>(few, row, vector);
            }
            for (; vector < few.vectors; ++vector) score_tile<T, rows(), 1>(few, row, vector);
        });
    }

    template <typename T>
    static void few_sums(const FewSums& few) {
        for_each_tile_of_rows<S::outer_rows>(few.rows, [&](int64_t row, auto rows) {
            // Of the registers that fewer rows leave, more values are summed at one time.
            constexpr int vectors = S::outer_vectors * (rows() * 3 <= S::outer_rows ? 2 : 1);
            int64_t column = 0;
            for (; column + vectors * L <= few.width; column += vectors * L) {
                sum_tile<T, rows(), vectors>(few, row, column);
            }
            for (; column < few.width; column += L) sum_tile<T, rows(), 1>(few, row, column);
        });
    }

    static void scale_tile(float* rows, int64_t num_rows, const float* factors) {
        for (int64_t row = 0; row < num_rows; ++row, rows += kTile) {
#pragma GCC unroll 16
            for (int v = 0; v < kVectors; ++v) {
                S::store(rows + v * L, S::mul(S::load(rows + v * L), S::load(factors + v * L)));
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

    // Both are brought to the larger maximum, the next is added to the first. A state without
    // positions changes nothing.
    static void join_softmax(const SoftmaxStates& states) {
        for (int64_t row = 0; row < states.rows; ++row) {
            const F before = S::set(states.maximum[row]);
            const F next = S::set(states.next_maximum[row]);
            const F maximum = S::max(before, next);
            const F factor = Math::exp2_of_negative(S::sub(before, maximum));
            const F next_factor = Math::exp2_of_negative(S::sub(next, maximum));
            S::store(states.maximum + row, maximum, 1);
            const F denominator = S::fma(S::set(states.next_denominator[row]), next_factor,
                                         S::mul(S::set(states.denominator[row]), factor));
            S::store(states.denominator + row, denominator, 1);
            float* outputs = states.outputs + row * states.width;
            const float* next_outputs = states.next_outputs + row * states.width;
            for (int64_t i = 0; i < states.width; i += L) {
                S::store(outputs + i, S::fma(S::load(next_outputs + i), next_factor,
                                             S::mul(S::load(outputs + i), factor)));
            }
        }
    }

  private:
    // body(first row, number of rows as a constant), for all of `count` rows.
    template <int most, typename Body>
    static void for_each_tile_of_rows(int64_t count, Body body) {
        for (int64_t row = 0; row < count; row += most) {
            with_rows<most>(count - row < most ? count - row : most,
                            [&](auto rows) { body(row, rows); });
        }
    }
    template <int rows, typename Body>
    static void with_rows(int64_t wanted, Body body) {
        if constexpr (rows > 0) {
            if (wanted == rows) {
                body(std::integral_constant<int, rows>());
            } else {
                with_rows<rows - 1>(wanted, body);
            }
        }
    }

    template <typename T, int rows, int vectors>
    static void score_tile(const FewScores& few, int64_t row, int64_t vector) {
        const float* queries = few.queries + row * few.query_stride;
        const T* keys[vectors];
        const T* next[vectors];
        for (int v = 0; v < vectors; ++v) {
            keys[v] = static_cast<const T*>(few.keys[vector + v]);
            next[v] = static_cast<const T*>(few.next[vector + v]);
        }
        F total[rows][vectors];
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) total[r][v] = S::zero();
        }
        for (int64_t k = 0; k < few.head_dim; ++k) {
            F right[vectors];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                right[v] = S::load(keys[v] + k * few.key_stride);
                __builtin_prefetch(next[v] + k * few.key_stride, 0, 2);
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                const F left = S::set(queries[r * few.query_stride + k]);
#pragma GCC unroll 8
                for (int v = 0; v < vectors; ++v) total[r][v] = S::fma(left, right[v], total[r][v]);
            }
        }
        float* scores = few.scores + row * few.score_stride + vector * L;
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                S::store(scores + r * few.score_stride + v * L, total[r][v]);
            }
        }
    }

    template <typename T, int rows, int vectors>
    static void sum_tile(const FewSums& few, int64_t row, int64_t column) {
        const float* weights = few.weights + row * few.weight_stride;
        float* out = few.out + row * few.out_stride + column;
        F total[rows][vectors];
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                total[r][v] =
                    S::mul(S::load(out + r * few.out_stride + v * L), S::set(few.factor[row + r]));
            }
        }
        for (int64_t p = 0; p < few.positions; ++p) {
            const T* values = static_cast<const T*>(few.values[p]) + column;
            const T* next = static_cast<const T*>(few.next[p]) + column;
            F right[vectors];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                right[v] = S::load(values + v * L);
                __builtin_prefetch(next + v * L, 0, 2);
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                const F left = S::set(weights[r * few.weight_stride + p]);
#pragma GCC unroll 8
                for (int v = 0; v < vectors; ++v) total[r][v] = S::fma(left, right[v], total[r][v]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                S::store(out + r * few.out_stride + v * L, total[r][v]);
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
        if (tile.seen != nullptr) return hide_others(scores, tile.seen[row]);
        return S::reduce_max(most);
    }

    // Hides positions without a bit; the maximum of the others.
    [[gnu::noinline]] static float hide_others(float* scores, uint64_t seen) {
        float most = -__builtin_inff();
        for (int64_t position = 0; position < kTile; ++position) {
            if ((seen >> position & 1) == 0) scores[position] = -__builtin_inff();
            if (scores[position] > most) most = scores[position];
        }
        return most;
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
