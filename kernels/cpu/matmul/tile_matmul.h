// Matmuls of bfloat16 with bfloat16 weights by tiles.
//
// Sixteen weight rows, where they lie, are the left operand of a tile product and sixteen rows of
// x, packed, the right one; the sums of a column lie side by side and are turned at the end. Sums
// are in the order of TilePairs, so a row's bits are the same in any batch.
//
// Of up to 96 rows of x weights are read as streams, sixteen columns of a tile far from each other,
// and multiplied by all rows at once: a tile product takes 16 cycles, in which memory gives a
// fraction of its kibibyte. Of more rows columns are multiplied side by side, while the next ones
// are fetched.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/matmul/stream_tiles.h"
#include "kernels/cpu/matmul/tile_pairs.h"
#include "kernels/cpu/simd/kernels.h"

namespace nvllm::cpu {

// Tiles: as AmxTiles.
template <class Tiles>
class TileMatmul {
  public:
    static constexpr int64_t depth = 32;  // values of k in a tile's row
    static constexpr int64_t kMaxStreamRows = kMaxStreamPanels * kTileRows;
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
        if (block.tokens <= kMaxGemvRows) return multiply_streams<kStreamsOfFew, 1>(block, pairs);
        switch (num_panels(block)) {
            case 1:
                return multiply_streams<kStreams, 1>(block, pairs);
            case 2:
                return multiply_streams<kStreams, 2>(block, pairs);
            case 3:
                return multiply_streams<kStreams, 3>(block, pairs);
            case 4:
                return multiply_streams<kStreams, 4>(block, pairs);
            case 5:
                return multiply_streams<kStreams, 5>(block, pairs);
            case 6:
                return multiply_streams<kStreams, 6>(block, pairs);
            default:
                break;
        }
        static_assert(kMaxStreamPanels == 6);
        for (int64_t column = 0; column < block.columns; column += together) {
            Upcoming upcoming(block, column + together);
            multiply_group(block, Group(block, column, 1, together), upcoming, pairs);
        }
    }

  private:
    using Pairs = TilePairs<Tiles>;
    using Operand = typename Pairs::Operand;
    static constexpr int64_t kValueBytes = sizeof(BFloat16);
    static constexpr int64_t kStepBytes = depth * kValueBytes;

    static int64_t num_panels(const MatmulBlock& block) {
        return (block.tokens + kTileRows - 1) / kTileRows;
    }

    // Up to 96 rows of x wait for weights, which come from memory once: as long streams, in each of
    // which the next row follows. Of up to eight rows four streams come fastest (eight 3 to 5 %
    // slower); of more, sixteen, which ask for x a quarter as often.
    static constexpr int64_t kMaxGemvRows = 8;
    static constexpr int kStreamsOfFew = 4;
    static constexpr int kStreams = 16;
    static constexpr int64_t ahead_bytes(int streams, int panels) {
        return streams == kStreamsOfFew ? 2048 : panels <= 1 ? 1024 : 512;
    }
    // Sums are stored when so many bytes of the next rows have been multiplied: at once would be to
    // wait for weights while none is asked for. The same goes for reading what was stored.
    static constexpr int64_t kStoredAfter = 1024;

    // Columns that are multiplied together, `spacing` apart: two tiles of weight rows. The last
    // values of the rows, where they do not fill a tile's row, are copied: nothing is read beyond
    // the weights.
    struct Group {
        int64_t first;
        int64_t columns[2];
        const std::byte* weights[2];
        int64_t stride;  // bytes from row to row
        int64_t whole;   // bytes of a row that fill tiles' rows
        std::byte tails[2][kTileRows][kStepBytes];

        Group(const MatmulBlock& block, int64_t column, int64_t spacing, int64_t most)
            : first(column),
              stride(spacing * block.in * kValueBytes),
              whole(block.in / depth * kStepBytes) {
            const int64_t there = (block.columns - first + spacing - 1) / spacing;
            const int64_t count = there < most ? there : most;
            for (int64_t i = 0; i < 2; ++i) {
                const int64_t left = count - i * kTileRows;
                columns[i] = left < 0 ? 0 : left < kTileRows ? left : kTileRows;
                weights[i] = static_cast<const std::byte*>(block.weight) +
                             first * block.in * kValueBytes + i * kTileRows * stride;
                const int64_t tail = block.in * kValueBytes - whole;
                if (tail == 0) continue;
                for (int64_t c = 0; c < columns[i]; ++c) {
                    std::memset(tails[i][c], 0, kStepBytes);
                    std::memcpy(tails[i][c], weights[i] + c * stride + whole,
                                static_cast<size_t>(tail));
                }
            }
        }
        bool has_tails(const MatmulBlock& block) const { return whole < block.in * kValueBytes; }
    };

    // The weights of the next group, which are fetched line by line while those of this one are
    // used several times.
    struct Upcoming {
        const std::byte* next;
        int64_t lines;
        int64_t lines_at_once;

        Upcoming(const MatmulBlock& block, int64_t column) {
            const int64_t row_bytes = block.in * kValueBytes;
            const bool is_last = column >= block.columns;
            const int64_t passes = (num_panels(block) + 1) / 2;
            next = static_cast<const std::byte*>(is_last ? block.next_weight : block.weight);
            if (!is_last) next += column * row_bytes;
            lines = next == nullptr || passes == 1 ? 0 : together * row_bytes / kTileRowBytes;
            lines_at_once = (together + passes - 1) / passes;
        }
        void fetch() {
            if (lines <= 0) return;
            for (int64_t i = 0; i < lines_at_once; ++i) {
                __builtin_prefetch(next, 0, 2);
                next += kTileRowBytes;
            }
            lines -= lines_at_once;
        }
    };

    // Two panels of x, or the last one.
    struct Rows {
        int64_t first;
        int64_t count[2] = {};
        const std::byte* packed[2] = {};

        Rows(const MatmulBlock& block, int64_t panel) {
            const int64_t row_bytes = (block.in + depth - 1) / depth * kStepBytes;
            first = panel * kTileRows;
            int64_t begin = first;
            for (int i = 0; i < 2 && begin < block.tokens; ++i, begin += kTileRows) {
                const int64_t left = block.tokens - begin;
                packed[i] = static_cast<const std::byte*>(block.x) + begin * row_bytes;
                count[i] = left < kTileRows ? left : kTileRows;
            }
        }
    };

    // What stays the same while the streams of a block are multiplied; sizes in bytes.
    struct Streams {
        const MatmulBlock& block;
        int64_t length;   // columns of each
        int64_t spacing;  // from sums of one stream to those of the next
        int64_t row_bytes;
        int64_t panel_bytes;
        int64_t last_stride;  // from word to word of the last panel
    };

    template <int streams, int panels>
    static void multiply_streams(const MatmulBlock& block, Pairs& pairs) {
        using Registers = StreamTiles<Tiles, panels>;
        constexpr int second = Registers::halves - 1;
        alignas(64) float sums[kMaxStreamColumns * panels * kTileRows];  // [columns][sum_rows]
        // A last panel that is not full gets sums of what lies behind it, too, which are not read;
        // a single one is multiplied as it is.
        const int64_t sum_rows = panels == 1 ? block.tokens : panels * kTileRows;
        const int64_t length = block.columns / streams;
        const Streams all{block,
                          length,
                          length * sum_rows * kWordBytes,
                          block.in * kValueBytes,
                          (block.in + depth - 1) / depth * kStepBytes * kTileRows,
                          (block.tokens - (panels - 1) * kTileRows) * kWordBytes};
        Registers::set_shape(streams, panels == 1 ? block.tokens : kTileRows);
        float* before = nullptr;
        for (int64_t i = 0; i < length; ++i) {
            const Group group(block, i, length, streams);
            if (i % 2 == 0) {
                sum_streams<streams, panels, 0>(all, group, before);
            } else {
                sum_streams<streams, panels, second>(all, group, before);
            }
            before = sums + i * sum_rows;
            if constexpr (second == 0) Registers::template store<0>(before, all.spacing);
        }
        if (second == 1 && length > 0) {
            length % 2 == 1 ? Registers::template store<0>(before, all.spacing)
                            : Registers::template store<second>(before, all.spacing);
        }
        const int64_t summed = length * streams;
        store_streams(block, sums, sum_rows, summed);
        if (summed < block.columns) {
            Upcoming nothing(block, block.columns);
            multiply_group(block, Group(block, summed, 1, kTileRows), nothing, pairs);
        }
    }

    // sums: [columns][sum_rows], with room for kMaxStreamColumns, of which some that were not
    // summed are turned too.
    static void store_streams(const MatmulBlock& block, const float* sums, int64_t sum_rows,
                              int64_t columns) {
        if (block.tokens == 1) {
            return store_row(sums, block.bias, block.accumulate, columns, block.y);
        }
        for (int64_t column = 0; column < columns; column += kTileRows) {
            const float* bias = block.bias == nullptr ? nullptr : block.bias + column;
            for (int64_t row = 0; row < block.tokens; row += kTileRows) {
                float turned[kTileRows][kTileRows];
                Tiles::transpose(sums + column * sum_rows + row, sum_rows, turned);
                float* y = block.y + row * block.y_stride + column;
                for (int64_t r = 0; r < kTileRows && row + r < block.tokens; ++r) {
                    if (columns - column >= kTileRows) {
                        store_row(turned[r], bias, block.accumulate, kTileRows, y);
                    } else {
                        store_row(turned[r], bias, block.accumulate, columns - column, y);
                    }
                    y += block.y_stride;
                }
            }
        }
    }

    // A row of each stream, into one half of the sums. Meanwhile those of the rows before are
    // stored from the other half. Where streams end the next block's begin.
    template <int streams, int panels, int half>
    static void sum_streams(const Streams& all, const Group& group, float* before) {
        using Registers = StreamTiles<Tiles, panels>;
        const auto* x = static_cast<const std::byte*>(all.block.x);
        const std::byte* last = x + (panels - 1) * all.panel_bytes;
        const auto step = [&](const std::byte* weights, int64_t stride) {
            Registers::template multiply<half>(weights, stride, x, all.panel_bytes, last,
                                               all.last_stride);
            x += kTileRows * kTileRowBytes;
            last += kTileRows * all.last_stride;
        };
        constexpr int64_t kAhead = ahead_bytes(streams, panels);
        const auto* next = static_cast<const std::byte*>(all.block.next_weight);
        const bool are_last = group.first + 1 == all.length && next != nullptr;
        const int64_t next_stride = all.block.next_columns / streams * all.row_bytes;
        const auto steps = [&](int64_t first, int64_t end) {
            for (int64_t at = first; at < end; at += kStepBytes) {
                step(group.weights[0] + at, group.stride);
                const int64_t ahead = at + kAhead;
                const bool is_next = are_last && ahead >= all.row_bytes;
                const std::byte* fetched =
                    is_next ? next + (ahead - all.row_bytes) : group.weights[0] + ahead;
                const int64_t stride = is_next ? next_stride : group.stride;
                for (int64_t i = 0; i < streams; ++i) {
                    __builtin_prefetch(fetched + i * stride, 0, panels <= 1 ? 3 : 2);
                }
            }
        };
        Registers::template zero<half>();
        const int64_t stored_after = group.whole < kStoredAfter ? group.whole : kStoredAfter;
        steps(0, stored_after);
        if constexpr (Registers::halves == 2) {
            if (before != nullptr) Registers::template store<1 - half>(before, all.spacing);
        }
        steps(stored_after, group.whole);
        if (group.has_tails(all.block)) step(group.tails[0][0], kStepBytes);
    }

    static void multiply_group(const MatmulBlock& block, const Group& group, Upcoming& upcoming,
                               Pairs& pairs) {
        for (int64_t panel = 0; panel < num_panels(block); panel += 2) {
            const Rows rows(block, panel);
            pairs.set_shape({{group.columns[0], group.columns[1]}, {rows.count[0], rows.count[1]}});
            pairs.with_tiles([&](auto column_tiles, auto row_tiles) {
                multiply<column_tiles(), row_tiles()>(block, group, rows, upcoming);
            });
        }
    }

    template <int column_tiles, int row_tiles>
    static void multiply(const MatmulBlock& block, const Group& group, const Rows& rows,
                         Upcoming& upcoming) {
        Pairs::template for_each_sum<column_tiles, row_tiles>(
            [](auto tile, auto, auto) { Tiles::template zero<tile()>(); });
        const int64_t x_stride[2] = {rows.count[0] * kWordBytes, rows.count[1] * kWordBytes};
        const std::byte* x[2] = {rows.packed[0], rows.packed[1]};
        const auto step = [&](const void* first, const void* second, int64_t stride) {
            Pairs::template multiply<TileProduct::bfloat16, column_tiles, row_tiles>(
                {Operand{first, stride}, Operand{second, stride}},
                {Operand{x[0], x_stride[0]}, Operand{x[1], x_stride[1]}});
            x[0] += kTileRows * x_stride[0];
            x[1] += kTileRows * x_stride[1];
        };
        const float* y = block.y + rows.first * block.y_stride + group.first;
        int64_t rows_to_fetch = rows.count[0] + rows.count[1];
        for (int64_t at = 0; at < group.whole; at += kStepBytes) {
            step(group.weights[0] + at, group.weights[1] + at, group.stride);
            upcoming.fetch();
            // Rows of y lie on pages of their own; to wait for each would take longer than to sum.
            if (rows_to_fetch > 0) {
                __builtin_prefetch(y, 1, 3);
                __builtin_prefetch(y + kTileRows, 1, 3);
                y += block.y_stride;
                --rows_to_fetch;
            }
        }
        if (group.has_tails(block)) step(group.tails[0], group.tails[1], kStepBytes);
        Pairs::template for_each_sum<column_tiles, row_tiles>(
            [&](auto tile, auto column_tile, auto row_tile) {
                store<tile()>(block, group, column_tile(), rows, row_tile());
            });
    }

    template <int tile>
    static void store(const MatmulBlock& block, const Group& group, int column_tile,
                      const Rows& rows, int row_tile) {
        const int64_t count = rows.count[row_tile];
        float sums[kTileRows][kTileRows];
        if (count == 1) {
            Tiles::template store<tile>(sums, kWordBytes);
        } else {
            Tiles::template store<tile>(sums, kTileRowBytes);
            Tiles::transpose(sums[0], kTileRows, sums);
        }
        const int64_t column = group.first + column_tile * kTileRows;
        const int64_t row = rows.first + (row_tile == 0 ? 0 : rows.count[0]);
        const float* bias = block.bias == nullptr ? nullptr : block.bias + column;
        float* y = block.y + row * block.y_stride + column;
        // Not known to be sixteen columns: rows that are copied as strings are written 6 % faster
        // here than vectors, the other way round in store_streams.
        for (int64_t r = 0; r < count; ++r, y += block.y_stride) {
            store_row(sums[r], bias, block.accumulate, group.columns[column_tile], y);
        }
    }
    [[gnu::always_inline]] static void store_row(const float* sums, const float* bias,
                                                 bool accumulate, int64_t columns, float* y) {
        for (int64_t c = 0; c < columns; ++c) {
            float sum = sums[c];
            if (accumulate) sum = y[c] + sum;
            if (bias != nullptr) sum += bias[c];
            y[c] = sum;
        }
    }

    static constexpr int64_t kWordBytes = sizeof(uint32_t);
};

template <class Tiles>
MatmulKernels tile_matmul_kernels() {
    using Kernel = TileMatmul<Tiles>;
    // Packed rows stay in the second-level cache, beside weights and results that pass by; fewer
    // than 64 would let weights pass too often.
    constexpr int64_t kMaxXBytes = 1 << 20;
    return {.max_panel_rows = kTileRows,
            .columns_at_once = Kernel::together,
            .step = Kernel::depth,
            .packed_bytes = sizeof(BFloat16),
            .max_in_place_tokens = kAnyNumber,
            .max_x_bytes = kMaxXBytes,
            .pack = Kernel::pack,
            .multiply = Kernel::multiply,
            .max_stream_rows = Kernel::kMaxStreamRows,
            .are_panels_full = true,
            .max_block_tokens = 256,
            .min_block_tokens = 64};
}

}  // namespace nvllm::cpu
