// Matrix products of packed x panels with rows of weights, as dot products along k.
//
// A register tile holds one vector of partial sums for each (row of x, row of weight) pair. Every pair has its own
// chain of fused multiply-adds over k and its own reduction, so a result does not depend on what else is in the tile.
//
// Weights are read once, straight from where they lie. While a group of weight rows is multiplied, the group after it
// is prefetched in address order: memory sees one forward stream a thread, however many rows a group has (many
// streams at once cost a core up to half of its bandwidth).
#pragma once

#include <cstdint>

#include "kernels/cpu/kernels.h"

namespace nvllm::cpu {

// Factors as float32: x rounded beforehand to the type X, weights of type W widened in registers.
template <class S, typename X, typename W>
struct WidenedFactors {
    using Simd = S;
    using Weight = W;
    using Packed = float;
    using Vector = typename S::F;
    static constexpr int64_t step = S::lanes;

    static Vector load_x(const Packed* p) { return S::load(p); }
    static Vector load_weight(const W* p) { return S::load(p); }
    static Vector load_weight(const W* p, int64_t count) { return S::load(p, count); }
    static typename S::F multiply_add(Vector x, Vector w, typename S::F sum) {
        return S::fma(x, w, sum);
    }
    static void pack(const float* x, Packed* out) {
        S::store(out, S::round_to(static_cast<const X*>(nullptr), S::load(x)));
    }
    static void pack(const float* x, int64_t count, Packed* out) {
        S::store(out, S::round_to(static_cast<const X*>(nullptr), S::load(x, count)));
    }
};

template <class Factors>
struct MatmulTile {
    using S = typename Factors::Simd;
    using F = typename S::F;
    using Vector = typename Factors::Vector;
    using Weight = typename Factors::Weight;
    using Packed = typename Factors::Packed;
    static constexpr int64_t step = Factors::step;
    static constexpr int max_rows = S::max_panel_rows;
    static constexpr int columns = S::tile_columns;

    static void pack_panel(const float* x, int64_t stride, int64_t rows, int64_t in, void* packed) {
        Packed* out = static_cast<Packed*>(packed);
        for (int64_t k = 0; k < in; k += step) {
            for (int64_t row = 0; row < rows; ++row, out += step) {
                const float* source = x + row * stride + k;
                if (k + step <= in) {
                    Factors::pack(source, out);
                } else {
                    Factors::pack(source, in - k, out);
                }
            }
        }
    }

    // sums[column][row] of `rows` packed rows of x by the weight rows that `weights` points to.
    template <int rows>
    static void multiply_tile(const Packed* x, const Weight* const* weights, int64_t in,
                              const char* prefetch, float* sums) {
        F total[columns][rows];
#pragma GCC unroll 8
        for (int c = 0; c < columns; ++c) {
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) total[c][r] = S::zero();
        }
        int64_t k = 0;
        for (; k + step <= in; k += step, x += rows * step) {
            prefetch = prefetch_group(prefetch);
            Vector factor[rows];
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) factor[r] = Factors::load_x(x + r * step);
#pragma GCC unroll 8
            for (int c = 0; c < columns; ++c) {
                const Vector weight = Factors::load_weight(weights[c] + k);
#pragma GCC unroll 8
                for (int r = 0; r < rows; ++r) {
                    total[c][r] = Factors::multiply_add(factor[r], weight, total[c][r]);
                }
            }
        }
        if (k < in) {
#pragma GCC unroll 8
            for (int c = 0; c < columns; ++c) {
                const Vector weight = Factors::load_weight(weights[c] + k, in - k);
#pragma GCC unroll 8
                for (int r = 0; r < rows; ++r) {
                    total[c][r] = Factors::multiply_add(Factors::load_x(x + r * step), weight, total[c][r]);
                }
            }
        }
        reduce(&total[0][0], columns * rows, sums);
    }

  private:
    static constexpr int64_t kLine = 64;

    // One step's share of the next group, in lines.
    static const char* prefetch_group(const char* address) {
        constexpr int64_t bytes = columns * step * static_cast<int64_t>(sizeof(Weight));
#pragma GCC unroll 8
        for (int64_t offset = 0; offset < bytes; offset += kLine) __builtin_prefetch(address + offset);
        return address + bytes;
    }

    static void reduce(const F* total, int count, float* sums) {
        int i = 0;
        for (; i + 4 <= count; i += 4) {
            S::reduce_add4(total[i], total[i + 1], total[i + 2], total[i + 3], sums + i);
        }
        for (; i < count; ++i) sums[i] = S::reduce_add(total[i]);
    }
};

// A block of the product: all panels of x by consecutive weight rows.
template <class Factors>
struct MatmulKernel {
    using Tile = MatmulTile<Factors>;
    using Weight = typename Factors::Weight;
    using Packed = typename Factors::Packed;
    static constexpr int columns = Tile::columns;
    static constexpr int max_rows = Tile::max_rows;

    static void multiply_block(const MatmulBlock& block) {
        const int64_t panels = (block.tokens + max_rows - 1) / max_rows;
        const int64_t padded = (block.in + Tile::step - 1) / Tile::step * Tile::step;
        for (int64_t panel = 0; panel < panels; ++panel) {
            const int64_t begin = block.tokens * panel / panels;
            const int64_t end = block.tokens * (panel + 1) / panels;
            const Packed* x = static_cast<const Packed*>(block.x) + begin * padded;
            for (int64_t column = 0; column < block.columns; column += columns) {
                multiply_group(block, x, begin, end - begin, column);
            }
        }
    }

  private:
    static void multiply_group(const MatmulBlock& block, const Packed* x, int64_t token, int64_t rows,
                               int64_t column) {
        const Weight* first = static_cast<const Weight*>(block.weight) + column * block.in;
        const int64_t count = block.columns - column < columns ? block.columns - column : columns;
        const Weight* weights[columns];
        // A short group repeats its last row: the sums are the same code's, the surplus is dropped.
        for (int c = 0; c < columns; ++c) weights[c] = first + (c < count ? c : count - 1) * block.in;
        const char* next = reinterpret_cast<const char*>(first + columns * block.in);
        float sums[columns * max_rows];
        multiply_rows<max_rows>(rows, x, weights, block.in, next, sums);
        for (int64_t row = 0; row < rows; ++row) {
            float* y = block.y + (token + row) * block.y_stride + column;
            for (int64_t c = 0; c < count; ++c) {
                float value = sums[c * rows + row];
                if (block.bias != nullptr) value += block.bias[column + c];
                y[c] = block.accumulate ? y[c] + value : value;
            }
        }
    }

    template <int rows>
    static void multiply_rows(int64_t wanted, const Packed* x, const Weight* const* weights, int64_t in,
                              const char* next, float* sums) {
        if constexpr (rows > 0) {
            if (wanted == rows) {
                Tile::template multiply_tile<rows>(x, weights, in, next, sums);
            } else {
                multiply_rows<rows - 1>(wanted, x, weights, in, next, sums);
            }
        }
    }
};

template <class Factors>
MatmulKernels matmul_kernels() {
    using Tile = MatmulTile<Factors>;
    return {Tile::max_rows,          Tile::columns, Tile::step, sizeof(typename Factors::Packed),
            Tile::pack_panel, MatmulKernel<Factors>::multiply_block};
}

}  // namespace nvllm::cpu
