// Matrix products of packed x panels with rows of weights, as dot products along k.
//
// A register tile holds one vector of partial sums for each (row of x, row of weight) pair. Every
// pair has its own chain of fused multiply-adds over k and its own reduction, so a result does not
// depend on what else is in the tile.
//
// Weights are read straight from where they lie. With few rows of x they come from memory, once,
// and each of a group's rows is prefetched a little ahead, at its end on into the next group. With
// many rows of x they stay in the second-level cache, and the next stretch of x is prefetched
// instead.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernels.h"

namespace nvllm::cpu {

// Weight rows of a register tile; four sums of a row are reduced together.
constexpr int kTileColumns = 4;

// Each struct of factors says how one step along k is loaded: `parts` vectors of x and of a weight
// row that are multiplied lane by lane and added to the sums one part after the other, `step`
// values of k in all.

// Factors as float32: weights of type W are widened in registers.
template <class S, typename W>
struct WidenedFactors {
    using Simd = S;
    using Weight = W;
    using Packed = float;
    using Vector = typename S::F;
    static constexpr int parts = 1;
    static constexpr int64_t step = S::lanes;
    static constexpr int rows = S::tile_rows;

    template <int part>
    static Vector load_x(const Packed* p) {
        return S::load(p);
    }
    template <int part>
    static Vector load_weight(const W* p) {
        return S::load(p);
    }
    // The first `count` values of a step, then zeros.
    static void load_tail(const W* p, int64_t count, W* out) {
        for (int64_t i = 0; i < step; ++i) out[i] = i < count ? p[i] : W{};
    }
    static Vector multiply_add(Vector x, Vector w, Vector sum) { return S::fma(x, w, sum); }
    // One step of x, rounded to the type X.
    template <typename X>
    static void pack(const float* x, Packed* out) {
        S::store(out, S::round_to(static_cast<const X*>(nullptr), S::load(x)));
    }
};

// The same for bfloat16 weights, which widen cheapest in pairs: as 32-bit words, the odd one of a
// pair is the word with its lower half cleared, and the even one is the word shifted up. Lane l has
// k = 2 l, then 2 l + 1.
template <class S>
struct WidenedPairs {
    using Simd = S;
    using Weight = BFloat16;
    using Packed = float;
    using Vector = typename S::F;
    static constexpr int parts = 2;
    static constexpr int64_t step = 2 * S::lanes;
    static constexpr int rows = S::tile_rows;

    template <int part>
    static Vector load_x(const Packed* p) {
        return S::load(p + part * S::lanes);
    }
    template <int part>
    static Vector load_weight(const BFloat16* p) {
        return part == 0 ? S::load_even(p) : S::load_odd(p);
    }
    static void load_tail(const BFloat16* p, int64_t count, BFloat16* out) {
        S::load_pairs(p, count, out);
    }
    static Vector multiply_add(Vector x, Vector w, Vector sum) { return S::fma(x, w, sum); }
    template <typename X>
    static void pack(const float* x, Packed* out) {
        const X* type = nullptr;
        S::store(out, S::round_to(type, S::load_even(x)));
        S::store(out + S::lanes, S::round_to(type, S::load_odd(x)));
    }
};

// Rows [0, rows) of x into a panel.
template <class Factors, typename X>
void pack_panel(const float* x, int64_t stride, int64_t rows, int64_t in, void* packed) {
    constexpr int64_t step = Factors::step;
    auto* out = static_cast<typename Factors::Packed*>(packed);
    int64_t k = 0;
    for (; k + step <= in; k += step) {
        for (int64_t row = 0; row < rows; ++row, out += step) {
            Factors::template pack<X>(x + row * stride + k, out);
        }
    }
    if (k == in) return;
    for (int64_t row = 0; row < rows; ++row, out += step) {
        float tail[step] = {};
        for (int64_t i = 0; k + i < in; ++i) tail[i] = x[row * stride + k + i];
        Factors::template pack<X>(tail, out);
    }
}

template <class Factors>
struct MatmulTile {
    using S = typename Factors::Simd;
    using F = typename S::F;
    using Vector = typename Factors::Vector;
    using Weight = typename Factors::Weight;
    using Packed = typename Factors::Packed;
    static constexpr int64_t step = Factors::step;
    static constexpr int max_rows = Factors::rows;
    static constexpr int columns = kTileColumns;
    static constexpr int64_t kLine = 64;
    // How far ahead weights are prefetched, in values.
    static constexpr int64_t kAhead = 1024 / static_cast<int64_t>(sizeof(Weight));

    // A stretch of k for one tile. Sums go on from `partial` unless the stretch is the first, and
    // to `partial` unless it is the last, which reduces them to sums[row * columns + column].
    struct Stretch {
        const Packed* x;  // one panel, from k = begin
        const Weight* const* weights;
        int64_t begin;
        int64_t end;  // a multiple of step, or the end of the rows
        bool first;
        bool last;
        F* partial;
        const char* next_x;  // what to prefetch, unless weights are
        float* sums;
    };

    template <int rows, bool prefetch_weights>
    static void multiply(const Stretch& stretch) {
        F total[columns * rows];
#pragma GCC unroll 32
        for (int i = 0; i < columns * rows; ++i)
            total[i] = stretch.first ? S::zero() : stretch.partial[i];
        const Packed* x = stretch.x;
        const char* next_x = stretch.next_x;
        int64_t ahead = kAhead;
        int64_t k = stretch.begin;
        for (; k + step <= stretch.end; k += step, x += rows * step) {
            const Weight* at[columns];
#pragma GCC unroll 8
            for (int c = 0; c < columns; ++c) at[c] = stretch.weights[c] + k;
            if constexpr (prefetch_weights) {
                // From here a row's own end is near: on to the row that is `columns` rows later.
                if (k + kAhead >= stretch.end) ahead = kAhead + (columns - 1) * stretch.end;
#pragma GCC unroll 8
                for (int c = 0; c < columns; ++c) __builtin_prefetch(at[c] + ahead, 0, 3);
            } else {
#pragma GCC unroll 8
                for (int c = 0; c < columns; ++c) __builtin_prefetch(next_x + c * kLine, 0, 2);
                next_x += columns * kLine;
            }
            multiply_step<rows>(x, at, total);
        }
        if (k < stretch.end) {
            Weight tails[columns][step];
            const Weight* at[columns];
            for (int c = 0; c < columns; ++c) {
                Factors::load_tail(stretch.weights[c] + k, stretch.end - k, tails[c]);
                at[c] = tails[c];
            }
            multiply_step<rows>(x, at, total);
        }
        if (stretch.last) {
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                S::reduce_add4(total[r], total[rows + r], total[2 * rows + r], total[3 * rows + r],
                               stretch.sums + r * columns);
            }
        } else {
#pragma GCC unroll 32
            for (int i = 0; i < columns * rows; ++i) stretch.partial[i] = total[i];
        }
    }

  private:
    template <int rows, int part = 0>
    static void multiply_step(const Packed* x, const Weight* const* weights, F* total) {
        Vector factor[rows];
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            factor[r] = Factors::template load_x<part>(x + r * step);
            // Or the compiler loads it anew for every column.
            if constexpr (rows > 1) S::hold_in_register(factor[r]);
        }
#pragma GCC unroll 8
        for (int c = 0; c < columns; ++c) {
            const Vector weight = Factors::template load_weight<part>(weights[c]);
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                total[c * rows + r] = Factors::multiply_add(factor[r], weight, total[c * rows + r]);
            }
        }
        if constexpr (part + 1 < Factors::parts) multiply_step<rows, part + 1>(x, weights, total);
    }
};

// A block of the product: all panels of x by consecutive weight rows.
template <class Factors>
struct MatmulKernel {
    using Tile = MatmulTile<Factors>;
    using Weight = typename Factors::Weight;
    using Packed = typename Factors::Packed;
    using F = typename Tile::F;
    static constexpr int columns = Tile::columns;
    static constexpr int max_rows = Tile::max_rows;
    static constexpr int64_t step = Tile::step;
    // A panel longer than this is multiplied in stretches, so that it stays in the first-level
    // cache from one group of weight rows to the next.
    static constexpr int64_t kStretchBytes = 24 << 10;
    static constexpr int64_t max_stretch =
        kStretchBytes / (max_rows * static_cast<int64_t>(sizeof(Packed))) / step * step;
    static constexpr int64_t kFewPanels = 2;
    static constexpr int64_t max_groups = kMaxMatmulColumns / columns;

    static void multiply_block(const MatmulBlock& block) {
        const int64_t panels = (block.tokens + max_rows - 1) / max_rows;
        const int64_t padded = (block.in + step - 1) / step * step;
        // With few panels weights come from memory, best in one forward stream.
        const int64_t stretch = panels <= kFewPanels ? padded : max_stretch;
        for (int64_t panel = 0; panel < panels; ++panel) {
            const int64_t begin = block.tokens * panel / panels;
            const int64_t end = block.tokens * (panel + 1) / panels;
            const Packed* x = static_cast<const Packed*>(block.x) + begin * padded;
            multiply_panel(block, x, begin, end - begin, stretch);
        }
    }

  private:
    static void multiply_panel(const MatmulBlock& block, const Packed* x, int64_t token,
                               int64_t rows, int64_t stretch) {
        F partial[max_groups][columns * max_rows];
        for (int64_t k = 0; k < block.in; k += stretch) {
            for (int64_t column = 0; column < block.columns; column += columns) {
                const int64_t end = k + stretch < block.in ? k + stretch : block.in;
                typename Tile::Stretch part{x + rows * k,
                                            nullptr,
                                            k,
                                            end,
                                            k == 0,
                                            end == block.in,
                                            partial[column / columns],
                                            nullptr,
                                            nullptr};
                multiply_group(block, token, rows, column, part);
            }
        }
    }

    static void multiply_group(const MatmulBlock& block, int64_t token, int64_t rows,
                               int64_t column, typename Tile::Stretch& part) {
        const Weight* first = static_cast<const Weight*>(block.weight) + column * block.in;
        const int64_t count = block.columns - column < columns ? block.columns - column : columns;
        const Weight* weights[columns];
        // A short group repeats its last row: the sums are the same code's, the surplus is dropped.
        for (int c = 0; c < columns; ++c)
            weights[c] = first + (c < count ? c : count - 1) * block.in;
        float sums[columns * max_rows];
        part.weights = weights;
        // Each group fetches its share of what this panel reads next.
        part.next_x = reinterpret_cast<const char*>(part.x) + kStretchBytes +
                      column / columns * (max_stretch / step) * columns * Tile::kLine;
        part.sums = sums;
        if (block.tokens <= kFewPanels * max_rows) {
            multiply_rows<max_rows, true>(rows, part);
        } else {
            multiply_rows<max_rows, false>(rows, part);
        }
        if (!part.last) return;
        for (int64_t row = 0; row < rows; ++row) {
            float* y = block.y + (token + row) * block.y_stride + column;
            const float* bias = block.bias == nullptr ? nullptr : block.bias + column;
            if (count == columns) {
                store(sums + row * columns, bias, block.accumulate, y, columns);
            } else {
                store(sums + row * columns, bias, block.accumulate, y, count);
            }
        }
    }

    [[gnu::always_inline]] static void store(const float* sums, const float* bias, bool accumulate,
                                             float* y, int64_t count) {
        float values[columns];
        for (int64_t c = 0; c < count; ++c)
            values[c] = bias == nullptr ? sums[c] : sums[c] + bias[c];
        for (int64_t c = 0; c < count; ++c) y[c] = accumulate ? y[c] + values[c] : values[c];
    }

    template <int rows, bool prefetch_weights>
    static void multiply_rows(int64_t wanted, const typename Tile::Stretch& part) {
        if constexpr (rows > 0) {
            if (wanted == rows) {
                Tile::template multiply<rows, prefetch_weights>(part);
            } else {
                multiply_rows<rows - 1, prefetch_weights>(wanted, part);
            }
        }
    }
};

// The kernels for x rounded to X by weights of Factors::Weight.
template <class Factors, typename X>
MatmulKernels matmul_kernels() {
    return {Factors::rows,          kTileColumns,
            Factors::step,          sizeof(typename Factors::Packed),
            pack_panel<Factors, X>, MatmulKernel<Factors>::multiply_block};
}

}  // namespace nvllm::cpu
