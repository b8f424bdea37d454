// Matmuls of many rows of x, columns side by side in a vector.
//
// The sums are those of MatmulTile, bit for bit: along a K-block of k each has one accumulator of
// fused multiply-adds for every lane, and the accumulators are then added together. Where a vector
// of MatmulTile holds all accumulators of one sum, one here holds the same accumulator of several
// columns, and a tile works off one accumulator after the other. Each value that it loads so meets
// more others, which counts where there are few registers, and accumulators are added without
// exchanging lanes. x and weights are packed for it accumulator by accumulator, as float32: to
// upcast weights at each product would take the units that multiply.
#pragma once

#include <cstdint>

#include "kernels/cpu/matmul/matmul_panels.h"

namespace nvllm::cpu {

template <class Operands>
class OuterProductMatmul {
  public:
    static constexpr int max_rows = Operands::Simd::outer_rows;
    static constexpr int columns = Operands::Simd::outer_vectors * Operands::Simd::lanes;

    // Rows [0, rows) of x, rounded to X, into a panel: of each K-block the accumulators, [rows] of
    // each value.
    template <typename X>
    static void pack_panel(const float* x, int64_t stride, int64_t rows, int64_t in, void* packed) {
        auto* out = static_cast<float*>(packed);
        for (int64_t begin = 0; begin < in; begin += kBlockK) {
            const int64_t length = least(kBlockK, (in - begin + step - 1) / step * step);
            Accumulators accumulators(out, length, rows);
            for (int64_t k = begin; k < begin + length; k += step) {
                F values[parts][num_accumulators] = {};
                for (int64_t row = 0; row < rows; ++row) {
                    float rounded[step];
                    pack_step<Operands, X>(x + row * stride + k, in - k, rounded);
                    for (int part = 0; part < parts; ++part) {
                        values[part][row] = S::load(rounded + part * S::lanes);
                    }
                }
                for (int part = 0; part < parts; ++part) {
                    S::transpose(values[part]);
                    accumulators.append(values[part]);
                }
            }
            out += length * rows;
        }
    }

    static void multiply_block(const MatmulBlock& block) {
        const Panels panels(block);
        for (int64_t k = 0; k < block.in; k += kBlockK) {
            for (int64_t column = 0; column < block.columns; column += columns) {
                multiply_columns(block, panels, {column, k});
            }
        }
    }

  private:
    using S = typename Operands::Simd;
    using F = typename S::F;
    using Weight = typename Operands::Weight;
    static constexpr int vectors = S::outer_vectors;
    static constexpr int num_accumulators = S::lanes;
    static constexpr int parts = Operands::parts;
    static constexpr int64_t step = Operands::step;
    using Panels = MatmulPanels<Operands, max_rows>;
    using Panel = typename Panels::Panel;
    static_assert(kBlockK % step == 0);
    static_assert(kMaxMatmulColumns % columns == 0);
    static_assert(max_rows <= num_accumulators);
    static_assert(sizeof(typename Operands::Packed) == sizeof(float));
    static_assert(kMaxMatmulColumns >= 2 * columns);  // room for what lies between accumulators
    static constexpr int64_t kStepValues = parts * columns;  // in an accumulator
    static constexpr int64_t kLine = 64;                     // bytes
    static constexpr int64_t kLineValues = kLine / sizeof(Weight);
    static constexpr int kLineSteps = kLineValues / step;

    // Not std::min, which every instruction set would share.
    static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

    // The accumulators of a K-block of x, which grow value by value.
    class Accumulators {
      public:
        Accumulators(float* out, int64_t length, int64_t rows)
            : out_(out), accumulator_(length / num_accumulators * rows), rows_(rows) {}

        // Values of the rows in each accumulator; a vector is longer than them.
        void append(const F* values) {
            const bool fits = at_ + S::lanes <= accumulator_;
            for (int i = 0; i < num_accumulators; ++i) {
                float* const to = out_ + i * accumulator_ + at_;
                if (fits) {
                    S::store(to, values[i]);
                } else {
                    S::store(to, values[i], rows_);
                }
            }
            at_ += rows_;
        }

      private:
        float* const out_;
        const int64_t accumulator_;
        const int64_t rows_;
        int64_t at_ = 0;
    };

    // Where columns of a block begin, in a K-block that does at k.
    struct Place {
        int64_t column;
        int64_t k;
    };

    // A K-block of rows of weights, fetched a few lines at a time for the second-level cache, in
    // `turns` turns.
    class Upcoming {
      public:
        Upcoming(const Weight* first, int64_t rows, int64_t values, int64_t in, int64_t turns)
            : row_(reinterpret_cast<const char*>(first)),
              row_bytes_(in * static_cast<int64_t>(sizeof(Weight))),
              bytes_(values * static_cast<int64_t>(sizeof(Weight))),
              rows_(rows),
              lines_((rows * ((bytes_ + kLine - 1) / kLine) + turns - 1) / turns) {}

        void fetch() {
            for (int64_t i = 0; i < lines_ && rows_ > 0; ++i) {
                __builtin_prefetch(row_ + at_, 0, 2);
                at_ += kLine;
                if (at_ < bytes_) continue;
                at_ = 0;
                row_ += row_bytes_;
                --rows_;
            }
        }

      private:
        const char* row_;
        int64_t row_bytes_;
        int64_t bytes_;
        int64_t rows_;
        int64_t lines_;  // at a time
        int64_t at_ = 0;
    };

    // The columns that follow `place` in the order in which they are multiplied.
    static Upcoming after(const MatmulBlock& block, const Place& place, int64_t turns) {
        const auto* weight = static_cast<const Weight*>(block.weight);
        const int64_t next = place.column + columns;
        if (next < block.columns)
            return rows_from(block, weight, {next, place.k}, block.columns, turns);
        const int64_t end = place.k + kBlockK;
        if (end < block.in) return rows_from(block, weight, {0, end}, block.columns, turns);
        return rows_from(block, static_cast<const Weight*>(block.next_weight), {0, 0},
                         block.next_columns, turns);
    }
    static Upcoming rows_from(const MatmulBlock& block, const Weight* weight, const Place& place,
                              int64_t count, int64_t turns) {
        if (weight == nullptr) return Upcoming(nullptr, 0, 0, 0, 1);
        return Upcoming(weight + place.column * block.in + place.k,
                        least(columns, count - place.column),
                        Panels::k_block_end(block, place.k) - place.k, block.in, turns);
    }

    // All panels by the columns at `place`, while those that follow are fetched.
    static void multiply_columns(const MatmulBlock& block, const Panels& panels,
                                 const Place& place) {
        auto* const packed = static_cast<float*>(block.packed_weight);
        const int64_t length = Panels::packed_length(block, place.k) / num_accumulators;
        pack_columns(block, place, length, packed);
        Upcoming upcoming = after(block, place, panels.count() * num_accumulators);
        for (int64_t i = 0; i < panels.count(); ++i) {
            const Panel panel = panels.at(i);
            Panels::with_rows(panel, [&](auto rows) {
                multiply_panel<rows()>(block, panel, place, length, packed, upcoming);
            });
        }
    }

    // The columns at `place`: [accumulators][length][columns]. length: values of k in an
    // accumulator. Those that there are not are the last one again: the sums are the same code's,
    // the surplus is dropped.
    [[gnu::noinline]] static void pack_columns(const MatmulBlock& block, const Place& place,
                                               int64_t length, float* out) {
        const Weight* rows[columns];
        for (int64_t c = 0; c < columns; ++c) {
            const int64_t of_block = least(place.column + c, block.columns - 1);
            rows[c] = static_cast<const Weight*>(block.weight) + of_block * block.in + place.k;
        }
        const int64_t count = Panels::k_block_end(block, place.k) - place.k;
        const int64_t spacing = accumulator_spacing(length);
        // Each row's line is used up at once: rows that lie a power of two apart push each other
        // out of the first-level cache.
        int64_t k = 0;
        for (; k + kLineValues <= count; k += kLineValues, out += kLineSteps * kStepValues) {
            pack_steps<kLineSteps>([&](int c) { return rows[c] + k; }, spacing, out);
        }
        for (; k + step <= count; k += step, out += kStepValues) {
            pack_steps<1>([&](int c) { return rows[c] + k; }, spacing, out);
        }
        if (k == count) return;
        Weight tails[columns][step];
        for (int c = 0; c < columns; ++c) Operands::load_tail(rows[c] + k, count - k, tails[c]);
        pack_steps<1>([&](int c) { return tails[c]; }, spacing, out);
    }

    template <int steps, typename RowAt>
    [[gnu::always_inline]] static void pack_steps(RowAt row_at, int64_t spacing, float* out) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
#pragma GCC unroll 4
            for (int i = 0; i < steps; ++i) {
                F words[S::lanes];
#pragma GCC unroll 16
                for (int c = 0; c < S::lanes; ++c) {
                    words[c] = Operands::load_words(row_at(v * S::lanes + c) + i * step);
                }
                S::transpose(words);
                float* const to = out + i * kStepValues + v * S::lanes;
#pragma GCC unroll 16
                for (int accumulator = 0; accumulator < num_accumulators; ++accumulator) {
                    Operands::store_words(to + accumulator * spacing, columns, words[accumulator]);
                }
            }
        }
    }

    // From one accumulator to the next: a line more than it takes, or all begin in the same set of
    // the first-level cache.
    static int64_t accumulator_spacing(int64_t length) {
        return length * columns + kLine / static_cast<int64_t>(sizeof(float));
    }

    // A K-block of a panel by the columns at `place`.
    template <int rows>
    static void multiply_panel(const MatmulBlock& block, const Panel& panel, const Place& place,
                               int64_t length, const float* packed, Upcoming& upcoming) {
        float* const y = block.y + panel.token * block.y_stride + place.column;
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) __builtin_prefetch(y + r * block.y_stride, 1, 3);
        F sums[num_accumulators * rows * vectors];
        const float* x = panel.x + rows * place.k;
        for (int accumulator = 0; accumulator < num_accumulators; ++accumulator) {
            upcoming.fetch();
            sum_accumulator<rows>(x + accumulator * length * rows,
                                  packed + accumulator * accumulator_spacing(length), length,
                                  sums + accumulator * rows * vectors);
        }
        add_accumulators<rows>(sums);
        store_sums<rows>(block, place, sums, y);
    }

    // sums: [rows][vectors].
    template <int rows>
    [[gnu::noinline]] static void sum_accumulator(const float* x, const float* weights,
                                                  int64_t length, F* sums) {
        F total[rows * vectors];
#pragma GCC unroll 32
        for (int i = 0; i < rows * vectors; ++i) total[i] = S::zero();
#pragma GCC unroll 4
        for (int64_t k = 0; k < length; ++k, x += rows, weights += columns) {
            add_value<rows>(x, weights, total);
        }
#pragma GCC unroll 32
        for (int i = 0; i < rows * vectors; ++i) sums[i] = total[i];
    }

    template <int rows>
    [[gnu::always_inline]] static void add_value(const float* x, const float* weights, F* total) {
        F weight[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) weight[v] = S::load(weights + v * S::lanes);
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            const F factor = S::set(x[r]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) {
                F& sum = total[r * vectors + v];
                sum = S::fma(factor, weight[v], sum);
            }
        }
    }

    // Into the first accumulator, as S::reduce_add4 adds lanes: those half of them apart, and so
    // on.
    template <int rows>
    static void add_accumulators(F* sums) {
        constexpr int each = rows * vectors;
        for (int apart = num_accumulators / 2; apart > 0; apart /= 2) {
            for (int i = 0; i < apart * each; ++i)
                sums[i] = S::add(sums[i], sums[i + apart * each]);
        }
    }

    template <int rows>
    static void store_sums(const MatmulBlock& block, const Place& place, const F* sums, float* y) {
        const bool adds = block.accumulate || place.k > 0;
        const bool ends = Panels::k_block_end(block, place.k) == block.in;
        const float* bias = block.bias == nullptr || !ends ? nullptr : block.bias + place.column;
        const int64_t left = block.columns - place.column;
        for (int r = 0; r < rows; ++r, y += block.y_stride) {
            for (int v = 0; v < vectors; ++v) {
                const int64_t first = v * S::lanes;
                const float* of_bias = bias == nullptr ? nullptr : bias + first;
                const F sum = sums[r * vectors + v];
                if (first + S::lanes <= left) {
                    store_sum(sum, of_bias, adds, y + first);
                } else if (first < left) {
                    store_sum(sum, of_bias, adds, y + first, left - first);
                }
            }
        }
    }

    // count: lanes that there are; none: all.
    template <typename... Count>
    [[gnu::always_inline]] static void store_sum(F sum, const float* bias, bool adds, float* y,
                                                 Count... count) {
        if (adds) sum = S::add(S::load(y, count...), sum);
        if (bias != nullptr) sum = S::add(sum, S::load(bias, count...));
        S::store(y, sum, count...);
    }
};

// The kernels for x rounded to X by weights of Factors::Weight.
template <class Operands, typename X>
constexpr MatmulKernels matmul_kernels_by_columns() {
    using Kernel = OuterProductMatmul<Operands>;
    return {.max_panel_rows = Kernel::max_rows,
            .columns_at_once = Kernel::columns,
            .step = Operands::step,
            .packed_bytes = sizeof(float),
            .max_in_place_tokens = 0,
            .max_x_bytes = kAnyNumber,
            .pack = Kernel::template pack_panel<X>,
            .multiply = Kernel::multiply_block};
}

}  // namespace nvllm::cpu
