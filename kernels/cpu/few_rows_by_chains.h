// Attention of a few rows with keys and values as they lie, in the order of tile products: of each
// 32 factors those at even places are one chain of multiply-adds, those at odd places another, and
// both together are added to what was there. Subnormal numbers are zeros, as to tiles. So a row has
// the same bits whether it is one of a few or of many.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <cstdint>

#include "kernels/cpu/attention_products.h"
#include "kernels/cpu/kernels.h"

namespace nvllm::cpu {

// S: vectors; their multiply-adds are fused, or exact as those of bfloat16 factors are.
template <class S>
class FewRowsByChains {
    using F = typename S::F;
    using Lanes = LaneSums<S>;
    static constexpr int64_t L = S::lanes;
    static constexpr int64_t kChains = 32;  // factors of both chains
    static constexpr int most_rows = 4;

  public:
    static void few_scores(const FewScores& few) {
        without_subnormals([&] {
            for_each_tile_of_rows<most_rows>(few.rows, [&](int64_t row, auto rows) {
                constexpr int vectors = vectors_of(rows());
                int64_t vector = 0;
                for (; vector + vectors <= few.vectors; vector += vectors) {
                    score_tile<rows(), vectors>(few, row, vector);
                }
                for (; vector < few.vectors; ++vector) score_tile<rows(), 1>(few, row, vector);
            });
        });
    }

    static void few_sums(const FewSums& few) {
        without_subnormals([&] {
            for_each_tile_of_rows<most_rows>(few.rows, [&](int64_t row, auto rows) {
                constexpr int vectors = vectors_of(rows());
                int64_t column = 0;
                for (; column + vectors * L <= few.width; column += vectors * L) {
                    sum_tile<rows(), vectors>(few, row, column);
                }
                for (; column < few.width; column += L) sum_tile<rows(), 1>(few, row, column);
            });
        });
    }

  private:
    static constexpr int vectors_of(int rows) { return rows <= 2 ? 4 : 2; }

    // The compiler does not see that the mode matters to sums: they stay in a function of their
    // own.
    template <typename Body>
    static void without_subnormals(Body body) {
#if defined(__x86_64__)
        constexpr unsigned both_ways = 0x8040;  // results and operands
        const unsigned mode = _mm_getcsr();
        _mm_setcsr(mode | both_ways);
        call(body);
        _mm_setcsr(mode);
#else
        call(body);
#endif
    }
    template <typename Body>
    [[gnu::noinline]] static void call(Body& body) {
        body();
    }

    // The factors of both chains, of each row.
    template <int rows>
    struct Widened {
        float factors[rows][kChains];

        // `words`: pairs of bfloat16, of which `count` values are there.
        Widened(const float* words, int64_t stride, int64_t first, int64_t count) {
#pragma GCC unroll 4
            for (int r = 0; r < rows; ++r) {
                const auto* from = reinterpret_cast<const BFloat16*>(words + r * stride) + first;
                int64_t i = 0;
                for (; i + L <= count; i += L) S::store(factors[r] + i, S::load(from + i));
                if (i < count) S::store(factors[r] + i, S::load(from + i, count - i));
            }
        }
    };

    // `right`: factors of one place of a chain, vectors of them.
    template <int rows, int vectors, typename Right>
    [[gnu::always_inline]] static void multiply_add(const Widened<rows>& left, int64_t place,
                                                    Right right, F (&chain)[rows][vectors]) {
        F factors[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) factors[v] = right(v);
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
            const F factor = S::set(left.factors[r][place]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) chain[r][v] = S::fma(factor, factors[v], chain[r][v]);
        }
    }

    // Adds to `total` the products of `count` factors of each row, at most those of both chains;
    // right(i, v): the other factors.
    template <int rows, int vectors, typename Right>
    [[gnu::always_inline]] static void add_chains(const Widened<rows>& left, int64_t count,
                                                  Right right, F (&total)[rows][vectors]) {
        F even[rows][vectors], odd[rows][vectors];
        Lanes::clear(even);
        Lanes::clear(odd);
        for (int64_t i = 0; i < count; i += 2) {
            multiply_add(
                left, i, [&](int v) { return right(i, v); }, even);
            multiply_add(
                left, i + 1, [&](int v) { return right(i + 1, v); }, odd);
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) {
                total[r][v] = S::add(total[r][v], S::add(even[r][v], odd[r][v]));
            }
        }
    }

    template <int rows, int vectors>
    static void score_tile(const FewScores& few, int64_t row, int64_t vector) {
        const float* queries = few.queries + row * few.query_stride;
        const BFloat16* keys[vectors];
        const BFloat16* next[vectors];
        for (int v = 0; v < vectors; ++v) {
            keys[v] = static_cast<const BFloat16*>(few.keys[vector + v]);
            next[v] = static_cast<const BFloat16*>(few.next[vector + v]);
        }
        F total[rows][vectors];
        Lanes::clear(total);
        for (int64_t k = 0; k < few.head_dim; k += kChains) {
            const int64_t count = few.head_dim - k < kChains ? few.head_dim - k : kChains;
            const Widened<rows> left(queries, few.query_stride, k, count);
            add_chains(
                left, count,
                [&](int64_t i, int v) {
                    const int64_t at = (k + i) * few.key_stride;
                    __builtin_prefetch(next[v] + at, 0, 2);
                    return S::load(keys[v] + at);
                },
                total);
        }
        Lanes::store(total, few.scores + row * few.score_stride + vector * L, few.score_stride);
    }

    template <int rows, int vectors>
    static void sum_tile(const FewSums& few, int64_t row, int64_t column) {
        const float* weights = few.weights + row * few.weight_stride;
        float* out = few.out + row * few.out_stride + column;
        F total[rows][vectors];
        Lanes::load_scaled(out, few.out_stride, few.factor + row, total);
        for (int64_t p = 0; p < few.positions; p += kChains) {
            const Widened<rows> left(weights, few.weight_stride, p, kChains);
            add_chains(
                left, kChains,
                [&](int64_t i, int v) {
                    const int64_t at = column + v * L;
                    __builtin_prefetch(static_cast<const BFloat16*>(few.next[p + i]) + at, 0, 2);
                    return S::load(static_cast<const BFloat16*>(few.values[p + i]) + at);
                },
                total);
        }
        Lanes::store(total, out, few.out_stride);
    }
};

}  // namespace nvllm::cpu
