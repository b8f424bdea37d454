// Products of x with panels of weights by instructions that multiply several codes of a column at
// once: integers, and pairs of bfloat16.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cpu/quantized_tile.h"
#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cpu {

// C: what the parts of a word are and how they are multiplied, as in quantized_codes.h. Sums of
// integers are exact, so that their order does not matter; others are of one chain, k rising.
template <class C, ops::WeightCode code>
class PartKernel {
    using Tile = QuantizedTile<C>;
    using S = typename C::Simd;
    using F = typename C::F;
    using Words = typename C::Words;
    using Sum = typename C::Sum;
    using X = typename C::X;
    static constexpr int lanes = Tile::lanes;
    static constexpr int vectors = Tile::vectors;
    static constexpr bool is_int4 = code == ops::WeightCode::int4;
    static constexpr int per_word = is_int4 ? 8 : 4;
    static constexpr int parts = is_int4 ? C::int4_parts : C::int8_parts;
    static constexpr int64_t kAheadBytes = 2048;  // that are prefetched, of each panel
    static constexpr int most_rows = S::lanes == 16 ? 6 : 3;
    static constexpr int most_panels = S::lanes == 16 ? 4 : 1;

  public:
    static void multiply(const QuantizedBlock& block) {
        for_each_stretch(block, block.group_size, [&](const QuantizedStretch& stretch) {
            for (int64_t row = 0; row < block.rows;) {
                row += some_rows<most_rows>(block, stretch, row);
            }
        });
    }

  private:
    template <int rows>
    static int some_rows(const QuantizedBlock& block, const QuantizedStretch& stretch,
                         int64_t row) {
        if constexpr (rows > 1) {
            if (block.rows - row < rows) {
                return some_rows < rows == 6 ? 4 : rows - 1 > (block, stretch, row);
            }
        }
        int panel = 0;
        for (; panel + most_panels <= block.panels; panel += most_panels) {
            tile<rows, most_panels>(block, stretch, row, panel);
        }
        for (; panel < block.panels; ++panel) tile<rows, 1>(block, stretch, row, panel);
        return rows;
    }

    // What the codes' shifts into unsigned ranges add to a sum is taken off first.
    static Sum first_sum(const QuantizedBlock& block, const QuantizedStretch& stretch, int64_t row,
                         int panel, int v) {
        if constexpr (is_int4 && C::int4_is_shifted) {
            return C::set_sums(block.x_corrections[row * block.groups + stretch.group]);
        } else if constexpr (!is_int4 && C::x_is_shifted) {
            return C::load_sums(block.corrections +
                                (panel * block.panel_groups + stretch.group) * kPanelColumns +
                                v * lanes);
        } else {
            return C::no_sums();
        }
    }

    // Sums stay in registers: all that touches them is inlined before arrays are taken apart.
    template <int rows, int panels>
    static void tile(const QuantizedBlock& block, const QuantizedStretch& stretch, int64_t row,
                     int panel) {
        constexpr int columns = panels * vectors;
        Sum sum[columns][rows];
        const X* x[rows];
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            x[r] = static_cast<const X*>(block.x) + (row + r) * block.x_stride + stretch.first;
#pragma GCC unroll 8
            for (int i = 0; i < columns; ++i) {
                sum[i][r] = first_sum(block, stretch, row + r, panel + i / vectors, i % vectors);
            }
        }
        const auto* codes =
            block.codes + panel * block.panel_bytes + stretch.first / per_word * kPanelColumns * 4;
        const int64_t steps = (stretch.end - stretch.first) / per_word;
        for (int64_t step = 0; step < steps; ++step) {
            const std::byte* const now = codes + step * kPanelColumns * 4;
#pragma GCC unroll 4
            for (int p = 0; p < panels; ++p) {
                __builtin_prefetch(now + p * block.panel_bytes + kAheadBytes);
            }
            add_parts<0, rows, columns>(now, block.panel_bytes, x, step * per_word, sum);
        }
#pragma GCC unroll 8
        for (int i = 0; i < columns; ++i) {
            F values[rows];
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) values[r] = C::to_float(sum[i][r]);
            Tile::add_to_totals(block, stretch, row, panel + i / vectors, i % vectors, values);
        }
    }

    // Part after part, so that those of x are loaded once for all columns.
    template <int part, int rows, int columns>
    [[gnu::always_inline]] static void add_parts(const std::byte* codes, int64_t panel_bytes,
                                                 const X* const* x, int64_t k,
                                                 Sum (&sum)[columns][rows]) {
#pragma GCC unroll 8
        for (int i = 0; i < columns; ++i) {
            const auto* at = reinterpret_cast<const uint32_t*>(codes + i / vectors * panel_bytes) +
                             i % vectors * lanes;
            add_part<part, rows>(C::load(at), x, k, sum[i]);
        }
        if constexpr (part + 1 < parts) {
            add_parts<part + 1, rows, columns>(codes, panel_bytes, x, k, sum);
        }
    }

    template <int part, int rows>
    [[gnu::always_inline]] static void add_part(Words words, const X* const* x, int64_t k,
                                                Sum (&sum)[rows]) {
        Words weights;
        if constexpr (is_int4) {
            weights = C::template int4_weights<part>(words);
        } else {
            weights = C::template int8_weights<part>(words);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            const X* values = x[r] + k + part * (per_word / parts);
            if constexpr (is_int4) {
                C::add_int4(weights, values, sum[r]);
            } else {
                C::add_int8(weights, values, sum[r]);
            }
        }
    }
};

// A row of codes as the integer kernels read it; count is a multiple of 8.
template <class C, ops::WeightCode code>
void arrange_codes(const int8_t* codes, int64_t count, void* arranged) {
    auto* out = static_cast<typename C::X*>(arranged);
    constexpr bool is_int4 = code == ops::WeightCode::int4;
    constexpr int per_word = is_int4 ? 8 : 4;
    for (int64_t k = 0; k < count; k += per_word, out += per_word) {
        for (int i = 0; i < per_word; ++i) {
            const int from = is_int4 ? C::int4_order[i] : C::int8_order[i];
            const int shift = !is_int4 && C::x_is_shifted ? 128 : 0;
            out[i] = static_cast<typename C::X>(codes[k + from] + shift);
        }
    }
}

}  // namespace nvllm::cpu
