// Kernels of layers with states: one row of a convolution, and linear attention over some columns
// of a head's state.
#pragma once

#include <cstdint>

#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/simd/kernels.h"

namespace nvllm::cpu {

template <class S>
struct LinearAttentionKernels {
    using Rows = RowKernels<S>;
    using F = typename S::F;
    static constexpr int64_t L = S::lanes;
    // Vectors of a state's columns that are computed side by side, and sums of each, over every
    // fourth dimension of the key: as many as hide the time that an addition takes.
    static constexpr int kVectors = 2;
    static constexpr int kSums = 4;

    static void conv_row(const float* const* rows, const float* weight, const float* bias,
                         int64_t taps, float* out, int64_t count) {
        Rows::for_each_vector(count, [=](int64_t i, auto n) {
            F sum = bias == nullptr ? S::zero() : Rows::load(bias + i, n);
            for (int64_t tap = 0; tap < taps; ++tap) {
                if (rows[tap] == nullptr) continue;
                sum = S::fma(Rows::load(weight + tap * count + i, n), Rows::load(rows[tap] + i, n),
                             sum);
            }
            Rows::store(out + i, sum, n);
        });
    }

    static void l2_norm(const float* x, float epsilon, float scale, float* out, int64_t count) {
        const float squares = Rows::mean_square(x, 0.0f, count) * static_cast<float>(count);
        const F factor = S::set(Rows::inverse_root(squares + epsilon) * scale);
        Rows::for_each_vector(count, [=](int64_t i, auto n) {
            Rows::store(out + i, S::mul(Rows::load(x + i, n), factor), n);
        });
    }

    static void linear_attention(const LinearAttentionColumns& columns) {
        if (columns.by_dimension) {
            all_columns<true>(columns);
        } else {
            all_columns<false>(columns);
        }
    }

  private:
    template <bool by_dimension>
    static void all_columns(const LinearAttentionColumns& columns) {
        int64_t first = 0;
        for (; first + kVectors * L <= columns.columns; first += kVectors * L) {
            rule<by_dimension, kVectors>(columns, first, typename Rows::Whole{});
        }
        for (; first + L <= columns.columns; first += L) {
            rule<by_dimension, 1>(columns, first, typename Rows::Whole{});
        }
        if (first < columns.columns) {
            rule<by_dimension, 1>(columns, first, columns.columns - first);
        }
    }

    template <int vectors>
    static F total(const F (&sums)[kSums][vectors], int v) {
        return S::add(S::add(sums[0][v], sums[1][v]), S::add(sums[2][v], sums[3][v]));
    }

    // All tokens over `vectors` vectors of columns, whose state stays in the first cache.
    template <bool by_dimension, int vectors, typename N>
    static void rule(const LinearAttentionColumns& c, int64_t first, N n) {
        float* const state = c.state + first;
        for (int64_t token = 0; token < c.tokens; ++token) {
            const float* const key = c.keys + token * c.key_stride;
            const float* const query = c.queries + token * c.query_stride;
            const float* const value = c.values + token * c.value_stride + first;
            float* const out = c.out + token * c.out_stride + first;
            const float* const decays = c.decay + token * c.decay_stride;
            const F decay = S::set(decays[0]);
            const F update = S::set(c.update[token * c.update_stride]);
            const F skip = S::set(c.skip);
            F sums[kSums][vectors] = {};
            clear(sums);
            if (c.is_delta) {
                for_each_dimension(c.key_dim, [&](int64_t i, int sum) {
                    const F k = S::set(by_dimension ? key[i] * decays[i] : key[i]);
                    for (int v = 0; v < vectors; ++v) {
                        const F old = Rows::load(state + i * c.state_stride + v * L, n);
                        sums[sum][v] = S::fma(k, old, sums[sum][v]);
                    }
                });
            }
            F change[vectors];
            for (int v = 0; v < vectors; ++v) {
                const F sum = total<vectors>(sums, v);
                const F expected = by_dimension ? sum : S::mul(decay, sum);
                change[v] = S::mul(update, S::sub(Rows::load(value + v * L, n), expected));
            }
            clear(sums);
            for_each_dimension(c.key_dim, [&](int64_t i, int sum) {
                const F k = S::set(key[i]);
                const F q = S::set(query[i]);
                const F kept = by_dimension ? S::set(decays[i]) : decay;
                float* const row = state + i * c.state_stride;
                for (int v = 0; v < vectors; ++v) {
                    const F old = S::mul(kept, Rows::load(row + v * L, n));
                    const F next = S::fma(k, change[v], old);
                    Rows::store(row + v * L, next, n);
                    sums[sum][v] = S::fma(q, next, sums[sum][v]);
                }
            });
            for (int v = 0; v < vectors; ++v) {
                const F skipped = Rows::load(value + v * L, n);
                Rows::store(out + v * L, S::fma(skip, skipped, total<vectors>(sums, v)), n);
            }
        }
    }

    template <int vectors>
    static void clear(F (&sums)[kSums][vectors]) {
        for (auto& sum : sums) {
            for (F& part : sum) part = S::zero();
        }
    }

    template <typename Body>
    static void for_each_dimension(int64_t count, Body body) {
        int64_t i = 0;
        for (; i + kSums <= count; i += kSums) {
#pragma GCC unroll 4
            for (int sum = 0; sum < kSums; ++sum) body(i + sum, sum);
        }
        for (int sum = 0; i < count; ++i, ++sum) body(i, sum);
    }
};

}  // namespace nvllm::cpu
