// Products of attention with keys and values, sums ascending, by how their factors meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/simd/kernels.h"

namespace nvllm::cpu {

// Values of type T that become float32 and meet one by one.
template <class S, typename T>
struct SingleOperands {
    using Simd = S;
    using Value = T;
    using F = typename S::F;
    static constexpr int64_t step = 1;

    static F load(const T* p, ptrdiff_t) { return S::load(p); }
    static F load(const T* p, ptrdiff_t, int64_t count) { return S::load(p, count); }
    static F multiply_add(F left, F right, F sum) { return S::fma(left, right, sum); }
};

// Calls body with `wanted`, one of 1 to `rows`, as a constant.
template <int rows, typename Body>
void with_rows(int64_t wanted, Body body) {
    if constexpr (rows > 0) {
        if (wanted == rows) {
            body(std::integral_constant<int, rows>());
        } else {
            with_rows<rows - 1>(wanted, body);
        }
    }
}

// body(first row, number of rows as a constant), for all of `count` rows.
template <int most, typename Body>
void for_each_tile_of_rows(int64_t count, Body body) {
    for (int64_t row = 0; row < count; row += most) {
        with_rows<most>(count - row < most ? count - row : most,
                        [&](auto rows) { body(row, rows); });
    }
}

// Sums of a few rows by a few vectors of columns, in registers.
template <class S>
struct LaneSums {
    using F = typename S::F;
    static constexpr int64_t L = S::lanes;

    template <int rows, int vectors>
    [[gnu::always_inline]] static void clear(F (&total)[rows][vectors]) {
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) total[r][v] = S::zero();
        }
    }
    template <int rows, int vectors>
    [[gnu::always_inline]] static void load_scaled(const float* from, int64_t stride,
                                                   const float* factor, F (&total)[rows][vectors]) {
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                total[r][v] = S::mul(S::load(from + r * stride + v * L), S::set(factor[r]));
            }
        }
    }
    template <int rows, int vectors>
    [[gnu::always_inline]] static void store(const F (&total)[rows][vectors], float* to,
                                             int64_t stride) {
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) S::store(to + r * stride + v * L, total[r][v]);
        }
    }
};

// M: how factors meet. A vector of them is a word to a lane, loaded from `M::step` rows that lie
// `stride` values apart.
template <class M>
struct AttentionMatmulKernels {
    using S = typename M::Simd;
    using Lanes = LaneSums<S>;
    using F = typename S::F;
    using T = typename M::Value;
    static constexpr int64_t L = S::lanes;

    static void load_keys(const KeysToLoad& keys) {
        const T* p = static_cast<const T*>(keys.keys);
        const T* next = static_cast<const T*>(keys.next);
        float* out = keys.out;
        for (int64_t k = 0; k < keys.head_dim; k += M::step) {
            load_row(p, keys.key_stride, next, keys.key_stride, out, keys.positions);
            p += M::step * keys.key_stride;
            next += M::step * keys.key_stride;
            out += keys.out_stride;
        }
    }

    static void load_values(const ValuesToLoad& values) {
        const PlacedParts& parts = values.values;
        float* out = values.out;
        for (int64_t p = 0; p < values.positions; p += M::step, out += values.out_stride) {
            const auto [at, stride] = step_of(parts.at + p, parts.offset);
            const auto [next, next_stride] = step_of(parts.next + p, parts.next_offset);
            load_row(at, stride, next, next_stride, out, values.width);
        }
    }

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

    static void decode_scores(const DecodeScores& few) {
        for_each_tile_of_rows<S::outer_rows>(few.rows, [&](int64_t row, auto rows) {
            int64_t vector = 0;
            for (; vector + S::outer_vectors <= few.vectors; vector += S::outer_vectors) {
                score_tile<rows(), S::outer_vectors>(few, row, vector);
            }
            for (; vector < few.vectors; ++vector) score_tile<rows(), 1>(few, row, vector);
        });
    }

    static void decode_matmul(const DecodeMatmul& few) {
        for_each_tile_of_rows<S::outer_rows>(few.rows, [&](int64_t row, auto rows) {
            // Of the registers that fewer rows leave, more values are summed at one time.
            constexpr int vectors = S::outer_vectors * (rows() * 3 <= S::outer_rows ? 2 : 1);
            int64_t column = 0;
            for (; column + vectors * L <= few.width; column += vectors * L) {
                sum_tile<rows(), vectors>(few, row, column);
            }
            for (; column < few.width; column += L) sum_tile<rows(), 1>(few, row, column);
        });
    }

  private:
    // Rows of values that meet together: the first, and how far it is to the next.
    struct Step {
        const T* first;
        ptrdiff_t stride;
    };
    static Step step_of(const std::byte* const* rows, ptrdiff_t offset) {
        const T* first = row_of(rows[0] + offset);
        return {first, row_of(rows[M::step - 1] + offset) - first};
    }
    static const T* row_of(const std::byte* p) { return reinterpret_cast<const T*>(p); }
    // Inlined always: a function that fetches and does nothing else is no work to the compiler.
    [[gnu::always_inline]] static void fetch(const T* p, ptrdiff_t stride) {
        for (int64_t i = 0; i < M::step; ++i) __builtin_prefetch(p + i * stride, 0, 2);
    }
    static void load_row(const T* p, ptrdiff_t stride, const T* next, ptrdiff_t next_stride,
                         float* out, int64_t count) {
        int64_t i = 0;
        for (; i + L <= count; i += L) {
            fetch(next + i, next_stride);
            S::store(out + i, M::load(p + i, stride));
        }
        if (i < count) {
            fetch(next + i, next_stride);
            S::store(out + i, M::load(p + i, stride, count - i), count - i);
        }
    }

    template <int rows, int vectors>
    static void multiply_add(const float* left, int64_t left_stride, const F (&right)[vectors],
                             F (&total)[rows][vectors]) {
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            const F word = S::set(left[r * left_stride]);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                total[r][v] = M::multiply_add(word, right[v], total[r][v]);
            }
        }
    }
    template <int rows, int vectors>
    static void score_tile(const DecodeScores& few, int64_t row, int64_t vector) {
        const float* queries = few.queries + row * few.query_stride;
        const T* keys[vectors];
        const T* next[vectors];
        for (int v = 0; v < vectors; ++v) {
            keys[v] = row_of(few.keys.part(vector + v));
            next[v] = row_of(few.keys.next_part(vector + v));
        }
        F total[rows][vectors];
        Lanes::clear(total);
        for (int64_t k = 0; k < few.head_dim; k += M::step) {
            F right[vectors];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                right[v] = M::load(keys[v] + k * few.key_stride, few.key_stride);
                fetch(next[v] + k * few.key_stride, few.key_stride);
            }
            multiply_add(queries + k / M::step, few.query_stride, right, total);
        }
        Lanes::store(total, few.scores + row * few.score_stride + vector * L, few.score_stride);
    }

    template <int rows, int vectors>
    static void sum_tile(const DecodeMatmul& few, int64_t row, int64_t column) {
        const float* weights = few.weights + row * few.weight_stride;
        const PlacedParts& parts = few.values;
        float* out = few.out + row * few.out_stride + column;
        F total[rows][vectors];
        Lanes::load_scaled(out, few.out_stride, few.factor + row, total);
        for (int64_t p = 0; p < few.positions; p += M::step) {
            const auto [values, stride] = step_of(parts.at + p, parts.offset);
            const auto [next, next_stride] = step_of(parts.next + p, parts.next_offset);
            F right[vectors];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                right[v] = M::load(values + column + v * L, stride);
                fetch(next + column + v * L, next_stride);
            }
            multiply_add(weights + p / M::step, few.weight_stride, right, total);
        }
        Lanes::store(total, out, few.out_stride);
    }

    template <int rows, int vectors>
    static void outer_tile(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                           float* c, int64_t c_stride, int64_t depth, const float* factor) {
        F total[rows][vectors];
        if (factor == nullptr) {
            Lanes::clear(total);
        } else {
            Lanes::load_scaled(c, c_stride, factor, total);
        }
        for (int64_t k = 0; k < depth; ++k, b += b_stride) {
            F right[vectors];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) right[v] = S::load(b + v * L);
            multiply_add(a + k, a_stride, right, total);
        }
        Lanes::store(total, c, c_stride);
    }
};

// `pack`: how rows of float32 become words, in place; null: they are.
template <class M>
AttentionMatmuls attention_matmuls(void (*pack)(float*, int64_t, int64_t, int64_t) = nullptr) {
    using Products = AttentionMatmulKernels<M>;
    return {.step = M::step,
            .pack = pack,
            .load_keys = Products::load_keys,
            .load_values = Products::load_values,
            .outer_product = Products::outer_product,
            .decode_scores = Products::decode_scores,
            .decode_matmul = Products::decode_matmul};
}

}  // namespace nvllm::cpu
