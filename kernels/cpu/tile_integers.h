// Products of integer codes of x with panels of int8 and int4 codes by tiles.
//
// A panel's words, sixteen columns of four codes of k, are what the right factor of a tile product
// is; so are those of 4-bit codes after their nibbles have become bytes. Rows of x, arranged as for
// VNNI, are the left factor. Sums of integers are exact: the bits are those of any other kernel.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/quantized_parts.h"
#include "kernels/cpu/quantized_tile.h"
#include "kernels/cpu/tile_pairs.h"

namespace nvllm::cpu {

// Where `count` words of bytes of each column of a panel are found, which may be in the room that
// is given; C: codes that are multiplied as VNNI does it.
template <class C>
struct TileInt8 : Int8Parts<C> {
    static constexpr TileProduct product = TileProduct::unsigned_by_signed;
    static constexpr int codes_of_word = 4;

    static const void* words(const uint32_t* panel, int64_t, uint32_t (&)[256]) { return panel; }
};

template <class C>
struct TileInt4 : Int4Parts<C> {
    static constexpr TileProduct product = TileProduct::signed_by_unsigned;
    static constexpr int codes_of_word = 8;

    // Of each word the codes at even places, then those at odd ones.
    static const void* words(const uint32_t* panel, int64_t count, uint32_t (&out)[256]) {
        constexpr int lanes = C::Simd::lanes;
        for (int64_t i = 0; i < count / 2 * kPanelColumns; i += lanes) {
            uint32_t* const at = out + i / kPanelColumns * (2 * kPanelColumns) + i % kPanelColumns;
            const typename C::Words words = C::load(panel + i);
            const typename C::Words even = C::template int4_weights<0>(words);
            const typename C::Words odd = C::template int4_weights<1>(words);
            std::memcpy(at, &even, sizeof(even));
            std::memcpy(at + kPanelColumns, &odd, sizeof(odd));
        }
        return out;
    }
};

// P: as the two above.
template <class Tiles, class P, class C>
class TileIntegers {
  public:
    static void multiply(const QuantizedBlock& block) {
        Pairs pairs;
        for_each_stretch(block, kWholeGroups, [&](const QuantizedStretch& stretch) {
            for (int panel = 0; panel < block.panels; panel += 2) {
                const int64_t panels = block.panels - panel < 2 ? 1 : 2;
                for (int64_t row = 0; row < block.rows; row += 2 * kTileRows) {
                    const int64_t rows = block.rows - row;
                    pairs.set_shape({{least(rows, kTileRows),
                                      least(rows < kTileRows ? 0 : rows - kTileRows, kTileRows)},
                                     {kPanelColumns, panels == 2 ? kPanelColumns : 0}});
                    pairs.with_tiles([&](auto row_tiles, auto panel_tiles) {
                        multiply<row_tiles(), panel_tiles()>({block, stretch, row, panel});
                    });
                }
            }
        });
    }

  private:
    using Pairs = TilePairs<Tiles>;
    using Factor = typename Pairs::Factor;
    using Totals = QuantizedTile<C>;
    using S = typename C::Simd;
    static constexpr int64_t step_bytes = kTileRowBytes;  // of a row of x, and values of k

    struct Work {
        const QuantizedBlock& block;
        const QuantizedStretch& stretch;
        int64_t row;
        int panel;

        int64_t rows(int tile) const {
            return least(block.rows - row - tile * kTileRows, kTileRows);
        }
        const int8_t* x(int tile) const {
            return static_cast<const int8_t*>(block.x) + (row + tile * kTileRows) * block.x_stride +
                   stretch.first;
        }
        const uint32_t* codes(int tile) const {
            return reinterpret_cast<const uint32_t*>(block.codes +
                                                     (panel + tile) * block.panel_bytes) +
                   stretch.first / P::codes_of_word * kPanelColumns;
        }
    };

    template <int row_tiles, int panel_tiles>
    static void multiply(const Work& work) {
        alignas(64) int32_t sums[kTileRows][kPanelColumns];
        Pairs::template for_each_sum<row_tiles, panel_tiles>(
            [&](auto tile, auto row_tile, auto panel_tile) {
                set_first_sums(work, row_tile(), panel_tile(), sums);
                Tiles::template load<tile()>(sums, sizeof(sums[0]));
            });
        const int64_t length = work.stretch.end - work.stretch.first;
        int64_t k = 0;
        for (; k + step_bytes <= length; k += step_bytes) {
            multiply_step<row_tiles, panel_tiles>(work, k, work.x(0) + k, work.x(1) + k,
                                                  work.block.x_stride, Pairs::words);
        }
        if (k < length) multiply_tail<row_tiles, panel_tiles>(work, k, length - k);
        Pairs::template for_each_sum<row_tiles, panel_tiles>(
            [&](auto tile, auto row_tile, auto panel_tile) {
                Tiles::template store<tile()>(sums, sizeof(sums[0]));
                add_to_totals(work, row_tile(), panel_tile(), sums);
            });
    }

    // What codes that are shifted add to a sum is taken off first.
    static void set_first_sums(const Work& work, int row_tile, int panel_tile,
                               int32_t (&sums)[kTileRows][kPanelColumns]) {
        for (int64_t r = 0; r < work.rows(row_tile); ++r) {
            for (int v = 0; v < Totals::vectors; ++v) {
                const auto first =
                    P::first_sum(work.block, work.stretch, work.row + row_tile * kTileRows + r,
                                 work.panel + panel_tile, v);
                std::memcpy(sums[r] + v * S::lanes, &first, sizeof(first));
            }
        }
    }

    // `words` of them from k on, the others are zeros.
    template <int row_tiles, int panel_tiles>
    [[gnu::always_inline]] static void multiply_step(const Work& work, int64_t k, const void* first,
                                                     const void* second, int64_t x_stride,
                                                     int64_t words) {
        alignas(64) uint32_t room[2][256];
        const void* codes[2] = {};
        for (int tile = 0; tile < panel_tiles; ++tile) {
            const uint32_t* at = work.codes(tile) + k / P::codes_of_word * kPanelColumns;
            codes[tile] = P::words(at, words, room[tile]);
            if (words == Pairs::words) continue;
            const auto bytes = static_cast<size_t>(words * kTileRowBytes);
            if (codes[tile] != room[tile]) std::memcpy(room[tile], at, bytes);
            std::memset(reinterpret_cast<std::byte*>(room[tile]) + bytes, 0,
                        sizeof(room[tile]) - bytes);
            codes[tile] = room[tile];
        }
        Pairs::template multiply<P::product, row_tiles, panel_tiles>(
            {Factor{first, x_stride}, Factor{second, x_stride}},
            {Factor{codes[0], kTileRowBytes}, Factor{codes[1], kTileRowBytes}});
    }

    // The last values of k, where they do not fill a tile; nothing is read beyond them.
    template <int row_tiles, int panel_tiles>
    static void multiply_tail(const Work& work, int64_t k, int64_t length) {
        alignas(64) int8_t x[row_tiles][kTileRows][step_bytes] = {};
        for (int tile = 0; tile < row_tiles; ++tile) {
            for (int64_t r = 0; r < work.rows(tile); ++r) {
                std::memcpy(x[tile][r], work.x(tile) + r * work.block.x_stride + k,
                            static_cast<size_t>(length));
            }
        }
        multiply_step<row_tiles, panel_tiles>(work, k, x[0], x[row_tiles - 1], step_bytes,
                                              length / 4);
    }

    static void add_to_totals(const Work& work, int row_tile, int panel_tile,
                              const int32_t (&sums)[kTileRows][kPanelColumns]) {
        const int64_t first = work.row + row_tile * kTileRows;
        for (int v = 0; v < Totals::vectors; ++v) {
            int64_t r = 0;
            for (; r + 4 <= work.rows(row_tile); r += 4) {
                add_rows<4>(work, first + r, work.panel + panel_tile, v, sums + r);
            }
            for (; r < work.rows(row_tile); ++r) {
                add_rows<1>(work, first + r, work.panel + panel_tile, v, sums + r);
            }
        }
    }
    template <int rows>
    static void add_rows(const Work& work, int64_t row, int panel, int v,
                         const int32_t (*sums)[kPanelColumns]) {
        typename S::F values[rows];
        for (int r = 0; r < rows; ++r) {
            typename C::Sum sum;
            std::memcpy(&sum, sums[r] + v * S::lanes, sizeof(sum));
            values[r] = C::to_float(sum);
        }
        Totals::template add_to_totals<rows>(work.block, work.stretch, row, panel, v, values);
    }
};

}  // namespace nvllm::cpu
