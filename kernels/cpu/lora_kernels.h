// Products of few rows with the matrices of one adapter.
#pragma once

#include <cstdint>

#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/simd/kernels.h"

namespace nvllm::cpu {

template <class S>
struct LoraKernels {
    using F = typename S::F;
    using Rows = RowKernels<S>;
    using Whole = typename Rows::Whole;
    static constexpr int64_t L = S::lanes;

    // Sums of one row and one rank are made in one order, however many are made at once.
    template <typename T>
    static void dots(const LoraDots& given) {
        int64_t row = 0;
        for (; row + 4 <= given.rows; row += 4) dots_of_rows<T, 4, L == 16 ? 4 : 2>(given, row);
        for (; row < given.rows; ++row) dots_of_rows<T, 1, 8>(given, row);
    }

    template <typename T>
    static void sums(const LoraSums& given) {
        int64_t row = 0;
        for (; row + 4 <= given.rows; row += 4) sums_of_rows<T, 4, 2>(given, row);
        for (; row < given.rows; ++row) sums_of_rows<T, 1, 4>(given, row);
    }

  private:
    // Bytes: streams of a few KiB end before the processor has noticed that they are streams.
    static constexpr int64_t kAhead = 512;

    template <typename T, int rows, int ranks>
    static void dots_of_rows(const LoraDots& given, int64_t row) {
        int64_t rank = 0;
        for (; rank + ranks <= given.ranks; rank += ranks)
            dots_of<T, rows, ranks>(given, row, rank);
        for (; rank < given.ranks; ++rank) dots_of<T, rows, 1>(given, row, rank);
    }

    template <typename T, int rows, int ranks>
    static void dots_of(const LoraDots& given, int64_t row, int64_t rank) {
        const T* const a = static_cast<const T*>(given.a) + rank * given.in;
        const float* const* const x = given.x + row;
        F totals[rows][ranks];
        for (auto& of_row : totals) {
            for (F& total : of_row) total = S::zero();
        }
        const auto add = [&](int64_t k, auto n) {
            F factors[rows];
            for (int i = 0; i < rows; ++i) factors[i] = Rows::load(x[i] + k, n);
            for (int j = 0; j < ranks; ++j) {
                const T* const of_rank = a + j * given.in + k;
                __builtin_prefetch(reinterpret_cast<const char*>(of_rank) + kAhead);
                const F weights = Rows::load(of_rank, n);
                for (int i = 0; i < rows; ++i) {
                    totals[i][j] = S::fma(factors[i], weights, totals[i][j]);
                }
            }
        };
        Rows::for_each_vector(given.in, add);
        for (int i = 0; i < rows; ++i) {
            for (int j = 0; j < ranks; ++j) {
                given.out[row + i][rank + j] = given.scale * S::reduce_add(totals[i][j]);
            }
        }
    }

    template <typename T, int rows, int vectors>
    static void sums_of_rows(const LoraSums& given, int64_t row) {
        int64_t column = 0;
        for (; column + vectors * L <= given.columns; column += vectors * L) {
            sums_of<T, rows, vectors>(given, row, column, Whole{});
        }
        for (; column + L <= given.columns; column += L) {
            sums_of<T, rows, 1>(given, row, column, Whole{});
        }
        if (column < given.columns) {
            sums_of<T, rows, 1>(given, row, column, given.columns - column);
        }
    }

    template <typename T, int rows, int vectors, typename Count>
    static void sums_of(const LoraSums& given, int64_t row, int64_t column, Count n) {
        const T* const b = static_cast<const T*>(given.b) + column;
        F totals[rows][vectors];
        for (int v = 0; v < vectors; ++v) {
            const F first =
                given.bias == nullptr ? S::zero() : Rows::load(given.bias + column + v * L, n);
            for (int i = 0; i < rows; ++i) totals[i][v] = first;
        }
        for (int64_t rank = 0; rank < given.ranks; ++rank) {
            F factors[rows];
            for (int i = 0; i < rows; ++i) factors[i] = S::set(given.inner[row + i][rank]);
            for (int v = 0; v < vectors; ++v) {
                const T* const of_rank = b + rank * given.b_stride + v * L;
                __builtin_prefetch(reinterpret_cast<const char*>(of_rank) + kAhead);
                const F weights = Rows::load(of_rank, n);
                for (int i = 0; i < rows; ++i) {
                    totals[i][v] = S::fma(factors[i], weights, totals[i][v]);
                }
            }
        }
        for (int i = 0; i < rows; ++i) {
            float* const y = given.y[row + i] + column;
            for (int v = 0; v < vectors; ++v) {
                Rows::store(y + v * L, S::add(Rows::load(y + v * L, n), totals[i][v]), n);
            }
        }
    }
};

}  // namespace nvllm::cpu
