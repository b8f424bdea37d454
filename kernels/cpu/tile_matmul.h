// Matrix products of bfloat16 with bfloat16 weights by tiles.
//
// Sixteen weight rows, where they lie, are the left factor of a tile product and sixteen rows of x,
// packed, the right one; the sums of a column lie side by side and are turned at the end. Sums are
// in the order of TilePairs, so a row's bits are the same in any batch.
//
// 32 rows of x take as long as one while weights come from memory: a tile product of 16 columns and
// 32 values of k takes 16 cycles, in which memory gives a fraction of its kibibyte.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/tile_pairs.h"

namespace nvllm::cpu {

// Tiles: as AmxTiles.
template <class Tiles>
class TileMatmul {
  public:
    static constexpr int64_t depth = 32;  // values of k in a tile's row
    // Columns, and rows of x, that are multiplied together: two tiles of each.
    static constexpr int64_t together = 2 * kTileRows;

    // Rows of x as [steps of k][16 words][rows]: word j of a step holds values 2 j and 2 j + 1.
    static void pack(const float* x, int64_t stride, int64_t rows, int64_t in, void* packed) {
        auto* words = static_cast<uint32_t*>(packed);
        for (int64_t k = 0; k < in; k += depth, words += kTileRows * rows) {
            Tiles::pack_words(x + k, stride, rows, in - k < depth ? in - k : depth, words);
        }
    }

    static void multiply(const MatmulBlock& block) {
        Pairs pairs;
        if (block.tokens > kFewRows) {
            const int64_t width = num_panels(block) > 2 ? together : kTileRows;
            for (int64_t column = 0; column < block.columns; column += width) {
                Upcoming upcoming(block, column + width);
                multiply_group(block, Group(block, column, 1, width), upcoming, pairs);
            }
            return;
        }
        Streams streams;
        const int64_t spacing = block.columns / kStreams;
        for (int64_t i = 0; i < spacing; ++i) {
            multiply_group(block, Group(block, i, spacing, kStreams), streams, pairs);
        }
        if (const int64_t done = spacing * kStreams; done < block.columns) {
            multiply_group(block, Group(block, done, 1, block.columns - done), streams, pairs);
        }
    }

  private:
    using Pairs = TilePairs<Tiles>;
    using Factor = typename Pairs::Factor;
    static constexpr int64_t kStepBytes = depth * static_cast<int64_t>(sizeof(BFloat16));

    static int64_t num_panels(const MatmulBlock& block) {
        return (block.tokens + kTileRows - 1) / kTileRows;
    }

    // With so few rows of x all waits for weights, which come from memory once. They are read as
    // eight long streams: in each the next group's row follows in memory. Sixteen rows side by side
    // come 8 % slower; more rows of x have more to gain from columns that are stored side by side.
    static constexpr int64_t kFewRows = 8;
    static constexpr int64_t kStreams = 8;
    static constexpr int64_t kAheadBytes = 1024;

    // Columns that are multiplied together, `spacing` apart. The last values of their rows, where
    // they do not fill a tile's row, are copied: nothing is read beyond the weights.
    struct Group {
        int64_t first;
        int64_t spacing;
        int64_t columns[2];
        const BFloat16* weights[2];
        int64_t whole;  // values of k that fill tiles
        BFloat16 tails[2][kTileRows][depth];

        Group(const MatmulBlock& block, int64_t column, int64_t gap, int64_t count)
            : first(column), spacing(gap), whole(block.in / depth * depth) {
            const int64_t there = (block.columns - first + spacing - 1) / spacing;
            if (count > there) count = there;
            for (int64_t i = 0; i < 2; ++i) {
                const int64_t left = count - i * kTileRows;
                columns[i] = left < 0 ? 0 : left < kTileRows ? left : kTileRows;
                weights[i] = static_cast<const BFloat16*>(block.weight) +
                             (first + i * kTileRows * spacing) * block.in;
                if (whole == block.in) continue;
                for (int64_t c = 0; c < columns[i]; ++c) {
                    const BFloat16* tail = weights[i] + c * spacing * block.in + whole;
                    for (int64_t k = 0; k < depth; ++k) {
                        tails[i][c][k] = whole + k < block.in ? tail[k] : BFloat16{};
                    }
                }
            }
        }
    };

    // The weights of the next group, which are fetched line by line while those of this one are
    // used several times.
    struct Upcoming {
        const std::byte* next;
        int64_t lines;
        int64_t lines_at_once;

        Upcoming(const MatmulBlock& block, int64_t column) {
            const int64_t row_bytes = block.in * static_cast<int64_t>(sizeof(BFloat16));
            const bool is_last = column >= block.columns;
            const int64_t passes = (num_panels(block) + 1) / 2;
            next = static_cast<const std::byte*>(is_last ? block.next_weight : block.weight);
            if (!is_last) next += column * row_bytes;
            lines = next == nullptr || passes == 1 ? 0 : together * row_bytes / kTileRowBytes;
            lines_at_once = (together + passes - 1) / passes;
        }
        void fetch(const Group&, int64_t, int64_t) {
            if (lines <= 0) return;
            for (int64_t i = 0; i < lines_at_once; ++i) {
                __builtin_prefetch(next, 0, 2);
                next += kTileRowBytes;
            }
            lines -= lines_at_once;
        }
    };

    // Of streams what lies ahead: where a row ends, the next group's goes on.
    struct Streams {
        void fetch(const Group& group, int64_t k, int64_t stride) {
            const auto* at = reinterpret_cast<const std::byte*>(group.weights[0] + k);
            for (int64_t c = 0; c < group.columns[0]; ++c) {
                __builtin_prefetch(at + c * stride + kAheadBytes, 0, 3);
            }
        }
    };

    // Two panels of x, or the last one.
    struct Rows {
        int64_t first;
        int64_t count[2] = {};
        const std::byte* packed[2] = {};

        Rows(const MatmulBlock& block, int64_t panel) {
            const int64_t panels = num_panels(block);
            const int64_t row_bytes = (block.in + depth - 1) / depth * kStepBytes;
            first = block.tokens * panel / panels;
            int64_t begin = first;
            for (int i = 0; i < 2 && panel < panels; ++i, ++panel) {
                const int64_t end = block.tokens * (panel + 1) / panels;
                packed[i] = static_cast<const std::byte*>(block.x) + begin * row_bytes;
                count[i] = end - begin;
                begin = end;
            }
        }
    };

    template <class Fetching>
    static void multiply_group(const MatmulBlock& block, const Group& group, Fetching& fetching,
                               Pairs& pairs) {
        for (int64_t panel = 0; panel < num_panels(block); panel += 2) {
            const Rows rows(block, panel);
            pairs.set_shape({{group.columns[0], group.columns[1]}, {rows.count[0], rows.count[1]}});
            pairs.with_tiles([&](auto column_tiles, auto row_tiles) {
                multiply<column_tiles(), row_tiles()>(block, group, rows, fetching);
            });
        }
    }

    template <int column_tiles, int row_tiles, class Fetching>
    static void multiply(const MatmulBlock& block, const Group& group, const Rows& rows,
                         Fetching& fetching) {
        Pairs::template for_each_sum<column_tiles, row_tiles>(
            [](auto tile, auto, auto) { Tiles::template zero<tile()>(); });
        const int64_t weight_stride =
            group.spacing * block.in * static_cast<int64_t>(sizeof(BFloat16));
        const int64_t x_stride[2] = {rows.count[0] * kWordBytes, rows.count[1] * kWordBytes};
        const std::byte* x[2] = {rows.packed[0], rows.packed[1]};
        const auto step = [&](const void* first, const void* second, int64_t stride) {
            Pairs::template multiply<TileProduct::bfloat16, column_tiles, row_tiles>(
                {Factor{first, stride}, Factor{second, stride}},
                {Factor{x[0], x_stride[0]}, Factor{x[1], x_stride[1]}});
            x[0] += kTileRows * x_stride[0];
            x[1] += kTileRows * x_stride[1];
        };
        const float* y = block.y + rows.first * block.y_stride + group.first;
        int64_t rows_to_fetch = rows.count[0] + rows.count[1];
        for (int64_t k = 0; k < group.whole; k += depth) {
            step(group.weights[0] + k, group.weights[1] + k, weight_stride);
            fetching.fetch(group, k, weight_stride);
            // Rows of y lie on pages of their own; to wait for each would take longer than to sum.
            if (rows_to_fetch > 0) {
                __builtin_prefetch(y, 1, 3);
                __builtin_prefetch(y + kTileRows, 1, 3);
                y += block.y_stride;
                --rows_to_fetch;
            }
        }
        if (group.whole < block.in) step(group.tails[0], group.tails[1], kStepBytes);
        Pairs::template for_each_sum<column_tiles, row_tiles>(
            [&](auto tile, auto column_tile, auto row_tile) {
                store<tile()>(block, group, column_tile(), rows, row_tile());
            });
    }

    template <int tile>
    static void store(const MatmulBlock& block, const Group& group, int column_tile,
                      const Rows& rows, int row_tile) {
        const int64_t count = rows.count[row_tile];
        const int64_t column = group.first + column_tile * kTileRows * group.spacing;
        float sums[kTileRows][kTileRows];
        if (count == 1) {
            Tiles::template store<tile>(sums, kWordBytes);
        } else {
            Tiles::template store<tile>(sums, kTileRowBytes);
            Tiles::transpose(sums);
        }
        const int64_t row = rows.first + (row_tile == 0 ? 0 : rows.count[0]);
        float* y = block.y + row * block.y_stride + column;
        const float* bias = block.bias == nullptr ? nullptr : block.bias + column;
        const int64_t columns = group.columns[column_tile];
        for (int64_t r = 0; r < count; ++r, y += block.y_stride) {
            if (group.spacing == 1) {
                store_row(sums[r], bias, block.accumulate, columns, 1, y);
            } else {
                store_row(sums[r], bias, block.accumulate, columns, group.spacing, y);
            }
        }
    }
    [[gnu::always_inline]] static void store_row(const float* sums, const float* bias,
                                                 bool accumulate, int64_t columns, int64_t spacing,
                                                 float* y) {
        for (int64_t c = 0; c < columns; ++c) {
            float sum = sums[c];
            if (accumulate) sum = y[c * spacing] + sum;
            if (bias != nullptr) sum += bias[c * spacing];
            y[c * spacing] = sum;
        }
    }

    static constexpr int64_t kWordBytes = sizeof(uint32_t);
};

template <class Tiles>
MatmulKernels tile_matmul_kernels() {
    using Kernel = TileMatmul<Tiles>;
    // Packed rows stay in the second-level cache, beside weights and results that pass by.
    constexpr int64_t kMaxXBytes = 512 << 10;
    return {.max_panel_rows = kTileRows,
            .columns_at_once = Kernel::together,
            .step = Kernel::depth,
            .packed_bytes = sizeof(BFloat16),
            .max_in_place_tokens = kAnyNumber,
            .max_x_bytes = kMaxXBytes,
            .pack = Kernel::pack,
            .multiply = Kernel::multiply};
}

}  // namespace nvllm::cpu
