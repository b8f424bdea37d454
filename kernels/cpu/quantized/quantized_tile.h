// What matmuls with quantized weights have in common: K-blocks of k, and sums that are scaled.
#pragma once

#include <cstdint>

#include "kernels/cpu/quantized/dequantize_scalar.h"
#include "kernels/cpu/simd/kernels.h"

namespace nvllm::cpu {

// Quantized values `first` to `end` of k, all of them of one group, with the scales of each panel.
struct QuantizedKBlock {
    int64_t first;
    int64_t end;
    int64_t group;
};

constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Functions that several instruction sets share are inlined: a linker would keep one for all.

// Where the sixteen scales, zero points and corrections of a panel's group begin.
[[gnu::always_inline]] inline int64_t place_of(const QuantizedBlock& block, int panel,
                                               int64_t group) {
    return (panel * block.panel_groups + group) * kPanelColumns;
}

// The words of a panel from value k on, of which `depth` are in so many words of a column.
template <int depth, int words = 1>
[[gnu::always_inline]] inline const uint32_t* words_at(const QuantizedBlock& block, int panel,
                                                       int64_t k) {
    return reinterpret_cast<const uint32_t*>(block.codes + panel * block.panel_bytes) +
           k / depth * (words * kPanelColumns);
}

// Where a K-block from `first` on ends, no longer than `longest` and within a group that ends at
// `last`.
[[gnu::always_inline]] inline int64_t end_of_k_block(const QuantizedBlock& block, int64_t first,
                                                     int64_t last, int64_t longest) {
    const int64_t end = least(first + longest, last);
    if (block.x_scales == nullptr) return end;
    return least(end, (first / block.x_group_size + 1) * block.x_group_size);
}

[[gnu::always_inline]] inline QuantizedKBlock k_block_at(const QuantizedBlock& block, int64_t first,
                                                         int64_t longest) {
    const int64_t group = first / block.group_size;
    const int64_t last = least((group + 1) * block.group_size, block.in);
    return {first, end_of_k_block(block, first, last, longest), group};
}

// Calls body(K-block) for all K-blocks of a row in order.
template <typename Body>
void for_each_k_block(const QuantizedBlock& block, int64_t longest, Body body) {
    for (int64_t group = 0; group < block.groups; ++group) {
        const int64_t last = least((group + 1) * block.group_size, block.in);
        for (int64_t first = group * block.group_size; first < last;) {
            const int64_t end = end_of_k_block(block, first, last, longest);
            body(QuantizedKBlock{first, end, group});
            first = end;
        }
    }
}

// Some panels of a block, from `first` on, without what comes next.
[[gnu::always_inline]] inline QuantizedBlock part_of(const QuantizedBlock& block, int first,
                                                     int panels) {
    const int64_t place = place_of(block, first, 0);
    const auto scale_bytes = static_cast<int64_t>(dtype_bytes(block.scale_type));
    QuantizedBlock part = block;
    part.codes += first * block.panel_bytes;
    part.weight_prefetch = nullptr;
    part.panels = panels;
    part.scales = static_cast<const std::byte*>(block.scales) + place * scale_bytes;
    if (block.zero_points != nullptr) part.zero_points += place;
    if (block.corrections != nullptr) part.corrections += place;
    part.totals += first * kPanelColumns;
    part.bias += first * kPanelColumns;
    part.y += first * block.y_panel_stride;
    if (first + panels < block.panels) part.last_columns = kPanelColumns;
    return part;
}

// Asks for a row of results while it is summed: rows lie on pages of their own, and to wait for
// each where it is written would take up to a tenth of a prefill's time.
[[gnu::always_inline]] inline void fetch_results(const QuantizedBlock& block, int64_t row,
                                                 int panel, int panels) {
    const float* y = block.y + row * block.y_stride + panel * block.y_panel_stride;
    for (int p = 0; p < panels; ++p, y += block.y_panel_stride) __builtin_prefetch(y, 1, 3);
}

// The quantized values of the next block, which are fetched part by part while those of this one
// are multiplied by many rows.
class WeightPrefetch {
  public:
    [[gnu::always_inline]] WeightPrefetch(const QuantizedBlock& block, int64_t parts)
        : block_(block),
          end_(block.weight_prefetch == nullptr ? 0 : block.quantized_bytes),
          part_bytes_((end_ / kLine + parts - 1) / parts * kLine) {}

    [[gnu::always_inline]] void fetch_part() {
        const int64_t end = least(at_ + part_bytes_, end_);
        for (; at_ < end; at_ += kLine) {
            for (int p = 0; p < block_.next_panels; ++p) {
                __builtin_prefetch(block_.weight_prefetch + p * block_.next_panel_bytes + at_, 0,
                                   2);
            }
        }
    }

  private:
    static constexpr int64_t kLine = 64;
    const QuantizedBlock& block_;
    int64_t end_;
    int64_t part_bytes_;
    int64_t at_ = 0;
};

template <class C>
struct QuantizedTile {
    using S = typename C::Simd;
    using F = typename C::F;
    static constexpr int lanes = S::lanes;
    static constexpr int vectors = kPanelColumns / lanes;  // of a panel

    // 16 scales of a panel's group, from vector `v` on.
    static F load_scales(const QuantizedBlock& block, int panel, int64_t group, int v) {
        const int64_t at = place_of(block, panel, group) + static_cast<int64_t>(v) * lanes;
        if (block.scale_type == DType::bf16) {
            return load_scales(static_cast<const BFloat16*>(block.scales) + at);
        }
        if (block.scale_type == DType::f16) {
            return load_scales(static_cast<const Float16*>(block.scales) + at);
        }
        return load_scales(static_cast<const float*>(block.scales) + at);
    }

    // Scales come too slowly for the processor to see streams in them.
    template <typename T>
    [[gnu::always_inline]] static F load_scales(const T* scales) {
        constexpr int64_t kAheadBytes = 256;
        __builtin_prefetch(reinterpret_cast<const char*>(scales) + kAheadBytes);
        return S::load(scales);
    }

    // Adds sum * scale of the weights (* scale of x) to totals, for the rows of a tile from `row`
    // on; with the last K-block results are written.
    template <int rows>
    [[gnu::always_inline]] static void add_sums(const QuantizedBlock& block,
                                                const QuantizedKBlock& k_block, int64_t row,
                                                int panel, int v, const F (&sums)[rows]) {
        add_sums(block, k_block, row, panel, v, load_scales(block, panel, k_block.group, v), sums);
    }
    template <int rows>
    [[gnu::always_inline]] static void add_sums(const QuantizedBlock& block,
                                                const QuantizedKBlock& k_block, int64_t row,
                                                int panel, int v, F of_weights,
                                                const F (&sums)[rows]) {
        float* total = block.totals + row * kQuantizedColumns + panel * kPanelColumns + v * lanes;
        const bool is_first = k_block.first == 0;
        const bool is_last = k_block.end == block.in;
        F totals[rows];
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r, total += kQuantizedColumns) {
            F scale = of_weights;
            if (block.x_scales != nullptr) {
                const int64_t x_group = k_block.first / block.x_group_size;
                scale = S::mul(scale,
                               S::set(block.x_scales[(row + r) * block.x_scale_stride + x_group]));
            }
            totals[r] = is_first ? S::mul(sums[r], scale) : S::fma(sums[r], scale, S::load(total));
            if (!is_last) S::store(total, totals[r]);
        }
        if (is_last) write_results(block, row, panel, v, totals);
    }

    // The same for any number of rows; sums_of(v) gives the sums of a vector of columns, as a
    // function of the row counted from the first.
    template <typename SumsOf>
    [[gnu::always_inline]] static void add_sums_of_rows(const QuantizedBlock& block,
                                                        const QuantizedKBlock& k_block,
                                                        int64_t first, int64_t rows, int panel,
                                                        SumsOf sums_of) {
        for (int v = 0; v < vectors; ++v) {
            const auto sum = sums_of(v);
            const F scales = load_scales(block, panel, k_block.group, v);
            if (block.x_scales == nullptr && k_block.end < block.in) {
                float* total =
                    block.totals + first * kQuantizedColumns + panel * kPanelColumns + v * lanes;
                add_to_totals(total, k_block.first == 0, rows, scales, sum);
                continue;
            }
            int64_t row = 0;
            for (; row + 4 <= rows; row += 4) {
                add_sums(block, k_block, first + row, panel, v, scales,
                         {sum(row), sum(row + 1), sum(row + 2), sum(row + 3)});
            }
            for (; row < rows; ++row) {
                add_sums(block, k_block, first + row, panel, v, scales, {sum(row)});
            }
        }
    }

    // Totals of a vector of a panel's columns, of a tile's rows from `row` on, become results.
    template <int rows>
    static void write_results(const QuantizedBlock& block, int64_t row, int panel, int v,
                              const F (&totals)[rows]) {
        const int64_t columns =
            (panel + 1 < block.panels ? kPanelColumns : block.last_columns) - v * lanes;
        if (columns <= 0) return;
        const F factor = S::set(block.factor);
        const F bias = S::load(block.bias + panel * kPanelColumns + v * lanes);
        float* y = block.y + row * block.y_stride + panel * block.y_panel_stride + v * lanes;
        for (int r = 0; r < rows; ++r, y += block.y_stride) {
            F value = S::mul(totals[r], factor);
            if (block.row_scales != nullptr)
                value = S::mul(value, S::set(block.row_scales[row + r]));
            value = S::add(value, bias);
            if (columns >= lanes) {
                S::store(y, block.accumulates ? S::add(value, S::load(y)) : value);
            } else {
                S::store(y, block.accumulates ? S::add(value, S::load(y, columns)) : value,
                         columns);
            }
        }
    }

  private:
    // What most K-blocks need; nothing of the block is read between rows.
    template <typename Sum>
    [[gnu::always_inline]] static void add_to_totals(float* total, bool are_first, int64_t rows,
                                                     F scales, Sum sum) {
        if (are_first) {
            for (int64_t row = 0; row < rows; ++row, total += kQuantizedColumns) {
                S::store(total, S::mul(sum(row), scales));
            }
        } else {
            for (int64_t row = 0; row < rows; ++row, total += kQuantizedColumns) {
                S::store(total, S::fma(sum(row), scales, S::load(total)));
            }
        }
    }
};

}  // namespace nvllm::cpu
