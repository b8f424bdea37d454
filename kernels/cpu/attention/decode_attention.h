// Attention of a few rows with keys and values as they lie, in the order of tile products: of each
// 32 factors those at even places are one accumulator of multiply-adds, those at odd places
// another, and both together are added to what was there. Subnormal numbers are zeros, as to tiles.
// So a row has the same bits whether it is one of a few or of many.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <cstdint>

#include "kernels/cpu/attention/attention_matmuls.h"
#include "kernels/cpu/simd/kernels.h"

namespace nvllm::cpu {

// S: vectors; their multiply-adds are fused, or exact as those of bfloat16 operands are.
template <class S>
class DecodeAttention {
    using F = typename S::F;
    using Lanes = LaneSums<S>;
    static constexpr int64_t L = S::lanes;
    static constexpr int64_t kOperands = 32;  // factors of both accumulators
    static constexpr int max_rows = 4;
    static constexpr int64_t kLine = 64;  // bytes that memory gives at once
    // Values are summed some columns of all positions at a time, but fetched as so many runs, each
    // from its begin to its end: memory gives a quarter more so (docs/notes/cpu.md).
    static constexpr int64_t kRuns = 4;

  public:
    static void decode_scores(const DecodeScores& few) {
        without_subnormals([&] {
            for_each_tile_of_rows<max_rows>(few.rows, [&](int64_t row, auto rows) {
                constexpr int vectors = vectors_of(rows());
                int64_t vector = 0;
                for (; vector + vectors <= few.vectors; vector += vectors) {
                    score_tile<rows(), vectors>(few, row, vector);
                }
                for (; vector < few.vectors; ++vector) score_tile<rows(), 1>(few, row, vector);
            });
        });
    }

    static void decode_matmul(const DecodeMatmul& few) {
        without_subnormals([&] {
            for_each_tile_of_rows<max_rows>(few.rows, [&](int64_t row, auto rows) {
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

    // The factors of both accumulators, of each row.
    template <int rows>
    struct Upcast {
        float factors[rows][kOperands];

        // `words`: pairs of bfloat16, of which `count` values are there.
        Upcast(const float* words, int64_t stride, int64_t first, int64_t count) {
#pragma GCC unroll 4
            for (int r = 0; r < rows; ++r) {
                const auto* from = reinterpret_cast<const BFloat16*>(words + r * stride) + first;
                int64_t i = 0;
                for (; i + L <= count; i += L) S::store(factors[r] + i, S::load(from + i));
                if (i < count) S::store(factors[r] + i, S::load(from + i, count - i));
            }
        }
    };

    // `right`: factors of one place of an accumulator, vectors of them.
    template <int rows, int vectors, typename Right>
    [[gnu::always_inline]] static void multiply_add(const Upcast<rows>& left, int64_t place,
                                                    Right right, F (&accumulator)[rows][vectors]) {
        F factors[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) factors[v] = right(v);
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
            const F factor = S::set(left.factors[r][place]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v)
                accumulator[r][v] = S::fma(factor, factors[v], accumulator[r][v]);
        }
    }

    // Adds to `total` the products of `count` factors of each row, at most those of both
    // accumulators; right(i, v): the other factors. fetch(i) is called for every second factor; it
    // has to be inlined always, since a function that fetches and does nothing else is no work to
    // the compiler.
    template <int rows, int vectors, typename Right, typename Fetch>
    [[gnu::always_inline]] static void add_accumulators(const Upcast<rows>& left, int64_t count,
                                                        Right right, Fetch fetch,
                                                        F (&total)[rows][vectors]) {
        F even[rows][vectors], odd[rows][vectors];
        Lanes::clear(even);
        Lanes::clear(odd);
        for (int64_t i = 0; i < count; i += 2) {
            fetch(i);
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

    static const BFloat16* row_of(const std::byte* p) {
        return reinterpret_cast<const BFloat16*>(p);
    }

    // A vector is half a line: of two dimensions the line of one is fetched, the other shares it or
    // is fetched by the vector beside this one, which begins no line.
    static const BFloat16* first_line(const BFloat16* keys, int64_t key_stride) {
        return reinterpret_cast<uintptr_t>(keys) % kLine == 0 ? keys : keys + key_stride;
    }

    template <int rows, int vectors>
    static void score_tile(const DecodeScores& few, int64_t row, int64_t vector) {
        const float* queries = few.queries + row * few.query_stride;
        const BFloat16* keys[vectors];
        const BFloat16* next[vectors];
        for (int v = 0; v < vectors; ++v) {
            keys[v] = row_of(few.keys.part(vector + v));
            next[v] = first_line(row_of(few.keys.next_part(vector + v)), few.key_stride);
        }
        F total[rows][vectors];
        Lanes::clear(total);
        for (int64_t k = 0; k < few.head_dim; k += kOperands) {
            const int64_t count = few.head_dim - k < kOperands ? few.head_dim - k : kOperands;
            const Upcast<rows> left(queries, few.query_stride, k, count);
            add_accumulators(
                left, count,
                [&](int64_t i, int v) { return S::load(keys[v] + (k + i) * few.key_stride); },
                [&](int64_t i) __attribute__((always_inline)) {
                    for (int v = 0; v < vectors; ++v) {
                        __builtin_prefetch(next[v] + (k + i) * few.key_stride, 0, 2);
                    }
                },
                total);
        }
        Lanes::store(total, few.scores + row * few.score_stride + vector * L, few.score_stride);
    }

    // What is fetched while vector `place` of the values' width is summed, a line for each two
    // positions.
    static const std::byte* run_to_fetch(const DecodeMatmul& few, int64_t place) {
        const int64_t first = place % kRuns * (few.positions / kRuns);
        return few.values.next_part(first) + place / kRuns * (few.positions / 2) * kLine;
    }

    template <int rows, int vectors>
    static void sum_tile(const DecodeMatmul& few, int64_t row, int64_t column) {
        const float* weights = few.weights + row * few.weight_stride;
        float* out = few.out + row * few.out_stride + column;
        F total[rows][vectors];
        Lanes::load_scaled(out, few.out_stride, few.factor + row, total);
        const std::byte* next[vectors];
        for (int v = 0; v < vectors; ++v) next[v] = run_to_fetch(few, column / L + v);
        for (int64_t p = 0; p < few.positions; p += kOperands) {
            const Upcast<rows> left(weights, few.weight_stride, p, kOperands);
            add_accumulators(
                left, kOperands,
                [&](int64_t i, int v) {
                    return S::load(row_of(few.values.part(p + i)) + column + v * L);
                },
                [&](int64_t i) __attribute__((always_inline)) {
                    for (int v = 0; v < vectors; ++v) {
                        __builtin_prefetch(next[v] + (p + i) / 2 * kLine, 0, 2);
                    }
                },
                total);
        }
        Lanes::store(total, out, few.out_stride);
    }
};

}  // namespace nvllm::cpu
