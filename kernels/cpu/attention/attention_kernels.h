// The running softmax of attention, tile by tile.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/vector_math.h"

namespace nvllm::cpu {

template <class S>
struct AttentionKernels {
    using F = typename S::F;
    using Math = VectorMath<S>;
    static constexpr int64_t L = S::lanes;
    static constexpr int64_t kTile = 64;
    static constexpr int kVectors = kTile / L;
    static constexpr float kLog2OfE = 1.44269504f;

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
    static void merge_softmax(const SoftmaxStates& states) {
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
