// Products of rows of x with panels of quantized values by tiles.
//
// Words of a panel, sixteen columns of four quantized values of k or of a pair of bfloat16, are the
// right factor of a tile product; rows of x, arranged as for VNNI or for products of such pairs,
// are the left one. Sums of integers are exact: the bits are those of any other kernel. Sums of
// bfloat16 products are in the order of TilePairs, for one row as for many.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/matmul/tile_pairs.h"
#include "kernels/cpu/quantized/quantized_parts.h"
#include "kernels/cpu/quantized/quantized_tile.h"
#include "kernels/cpu/simd/kernels.h"

namespace nvllm::cpu {

// Room for kQuantizedBlockK words of each column of a panel.
[[gnu::always_inline]] inline uint32_t* dequantized_panel(const QuantizedBlock& block, int panel) {
    return reinterpret_cast<uint32_t*>(block.dequantized) +
           panel * kQuantizedBlockK * kPanelColumns;
}

// Quantized values of a kind, as TileQuantizedMatmul takes them. C: how they are multiplied as
// integers. words_of gives those of a panel's K-block, in the form of a tile's right operand, as
// many values of k to a word as x has. Before that quantized values of two panels are spread for
// all rows of x and of k.
template <class C>
struct TileInt8 : Int8Parts<C> {
    using SumOfTile = int32_t;
    static constexpr TileProduct product = TileProduct::unsigned_by_signed;

    static void spread(const QuantizedBlock&, int) {}  // multiplied as they are stored
    static const uint32_t* words_of(const QuantizedBlock& block, const QuantizedKBlock& k_block,
                                    int panel) {
        return words_at<4>(block, panel, k_block.first);
    }
};

template <class C>
struct TileInt4 : Int4Parts<C> {
    using SumOfTile = int32_t;
    static constexpr TileProduct product = TileProduct::signed_by_signed;

    static void spread(const QuantizedBlock& block, int panel) {
        // As they were before they were shifted into an unsigned range.
        spread_words<Int4Parts<C>>(words_at<8>(block, panel, 0), block.in, room(block, panel),
                                   C::less_eight);
    }
    static const uint32_t* words_of(const QuantizedBlock& block, const QuantizedKBlock& k_block,
                                    int panel) {
        return room(block, panel) + k_block.first / 4 * kPanelColumns;
    }
    static auto first_sums(const QuantizedBlock&, const QuantizedKBlock&, int, int) {
        return [](int64_t) { return C::no_sums(); };
    }

  private:
    static uint32_t* room(const QuantizedBlock& block, int panel) {
        const int64_t words_of_panel = block.in / 4 * kPanelColumns;
        return reinterpret_cast<uint32_t*>(block.dequantized) + panel % 2 * words_of_panel;
    }
};

// Quantized values that become pairs of bfloat16, once for all rows of x. W(zero points of sixteen
// columns, or null) dequantizes: its pair<part>(words) are the factors of depth / parts values of
// k, two of each column.
template <class C, class W>
struct TileDequantizedPairs : FloatSums<C> {
    using X = BFloat16;
    using SumOfTile = float;
    static constexpr TileProduct product = TileProduct::bfloat16;
    static constexpr int64_t longest_k_block = 2 * kQuantizedBlockK;  // that there is room for

    static const uint32_t* words_of(const QuantizedBlock& block, const QuantizedKBlock& k_block,
                                    int panel) {
        uint32_t* const room = dequantized_panel(block, panel);
        dequantize(dequantizer_of(block, panel, k_block.group),
                   packed_words(block, panel, k_block.first), k_block.end - k_block.first, room);
        return room;
    }
    static const uint32_t* packed_words(const QuantizedBlock& block, int panel, int64_t k) {
        return words_at<W::depth, W::words>(block, panel, k);
    }
    static W dequantizer_of(const QuantizedBlock& block, int panel, int64_t group) {
        if (block.zero_points == nullptr) return W(nullptr);
        return W(block.zero_points + place_of(block, panel, group));
    }
    // `count` values of k.
    [[gnu::always_inline]] static void dequantize(const W& dequantizer, const uint32_t* from,
                                                  int64_t count, uint32_t* to) {
        constexpr int64_t row_words = W::words * kPanelColumns;
        for (int64_t k = 0; k < count; k += W::depth, from += row_words) {
            for (int w = 0; w < W::words; ++w) {
                __builtin_prefetch(from + w * kPanelColumns + kAheadWords);
            }
            to = dequantize_words<0>(dequantizer, from, to);
        }
    }

  private:
    static constexpr int64_t kAheadWords = 512;

    template <int part>
    [[gnu::always_inline]] static uint32_t* dequantize_words(const W& dequantizer,
                                                             const uint32_t* from, uint32_t* to) {
        const auto pairs = dequantizer.template pair<part>(from);
        static_assert(sizeof(pairs) == kPanelColumns * sizeof(uint32_t));
        std::memcpy(to, &pairs, sizeof(pairs));
        if constexpr (part + 1 < W::parts) {
            return dequantize_words<part + 1>(dequantizer, from, to + kPanelColumns);
        }
        return to + kPanelColumns;
    }
};

// P: as those above; num_words: of k, that are multiplied in a step.
template <class Tiles, class P, int64_t num_words = 16>
class TileQuantizedMatmul {
  public:
    static void multiply(const QuantizedBlock& block) {
        Pairs pairs;
        Meanwhile meanwhile{Fetching(block), SumsBefore(block)};
        if constexpr (!is_exact) {
            for_each_k_block(block, P::longest_k_block, [&](const QuantizedKBlock& k_block) {
                for (int panel = 0; panel < block.panels; panel += 2) {
                    Work work(block, k_block, panel);
                    for (; work.row < block.rows; work.row += kRowsTogether) {
                        multiply(work, pairs, meanwhile);
                    }
                }
            });
        } else {
            // Totals of some rows stay in the first-level cache until all groups have been added.
            for (int panel = 0; panel < block.panels; panel += 2) {
                P::spread(block, panel);
                if (panel + 1 < block.panels) P::spread(block, panel + 1);
                for (int64_t row = 0; row < block.rows; row += kRowsTogether) {
                    for_each_k_block(block, P::longest_k_block, [&](const QuantizedKBlock& some) {
                        Work work(block, some, panel);
                        work.row = row;
                        multiply(work, pairs, meanwhile);
                    });
                }
            }
        }
        meanwhile.sums.add_all();
    }

  private:
    using Pairs = TilePairs<Tiles, num_words>;
    using Operand = typename Pairs::Operand;
    using Totals = QuantizedTile<P>;
    using X = typename P::X;
    using S = typename P::Simd;
    using Sums = typename P::SumOfTile[kTileRows][kPanelColumns];
    static constexpr bool is_exact = std::is_same_v<typename P::SumOfTile, int32_t>;
    static constexpr int64_t values_of_word = 4 / static_cast<int64_t>(sizeof(X));
    static constexpr int64_t depth = num_words * values_of_word;
    static constexpr int64_t kRowsTogether = 2 * kTileRows;

    struct Work {
        const QuantizedBlock& block;
        const QuantizedKBlock& k_block;
        int64_t row = 0;
        int panel;
        const uint32_t* words[2];

        Work(const QuantizedBlock& all, const QuantizedKBlock& some, int first_panel)
            : block(all),
              k_block(some),
              panel(first_panel),
              words{P::words_of(all, some, first_panel),
                    panels() == 2 ? P::words_of(all, some, first_panel + 1) : nullptr} {}

        int panels() const { return block.panels - panel < 2 ? 1 : 2; }
        int64_t rows(int tile) const {
            const int64_t left = block.rows - row - tile * kTileRows;
            return left < 0 ? 0 : least(left, kTileRows);
        }
        const X* x(int tile) const {
            return static_cast<const X*>(block.x) + (row + tile * kTileRows) * block.x_stride +
                   k_block.first;
        }
        int64_t x_bytes() const { return block.x_stride * static_cast<int64_t>(sizeof(X)); }
    };

    // What is asked for in a step: rows of the tiles' results, of which a row of weights takes so
    // many steps, and quantized values of the next block.
    struct Fetching {
        int64_t result_rows;
        WeightPrefetch codes;

        explicit Fetching(const QuantizedBlock& block)
            : result_rows((kRowsTogether + steps(block) - 1) / steps(block)),
              codes(block, steps(block) * tiles(block)) {}

        static int64_t steps(const QuantizedBlock& block) { return (block.in + depth - 1) / depth; }
        static int64_t tiles(const QuantizedBlock& block) {
            return (block.panels + 1) / 2 * ((block.rows + kRowsTogether - 1) / kRowsTogether);
        }
        [[gnu::always_inline]] void fetch(const Work& work, int64_t k) {
            const int64_t first = work.row + (work.k_block.first + k) / depth * result_rows;
            const int64_t end =
                least(first + result_rows, least(work.row + kRowsTogether, work.block.rows));
            for (int64_t row = first; row < end; ++row) {
                fetch_results(work.block, row, work.panel, work.panels());
            }
            codes.fetch_part();
        }
    };

    // Sums of the tiles multiplied before, which are added to totals while those of now are
    // multiplied: vectors would wait for tiles, and then tiles for vectors.
    struct SumsBefore {
        alignas(64) Sums sums[4];
        const QuantizedBlock& block;
        QuantizedKBlock k_block{};
        int64_t row = 0;
        int64_t rows[2] = {};
        int panel = 0;
        int panels = 0;
        int added = 4;

        explicit SumsBefore(const QuantizedBlock& all) : block(all) {}

        // Takes the place of sums that have all been added.
        template <int row_tiles, int panel_tiles>
        void take(const Work& work) {
            Pairs::template for_each_sum<row_tiles, panel_tiles>([&](auto tile, auto, auto) {
                Tiles::template store<tile()>(sums[tile], kTileRowBytes);
            });
            k_block = work.k_block;
            row = work.row;
            panel = work.panel;
            panels = panel_tiles;
            for (int tile = 0; tile < 2; ++tile) rows[tile] = work.rows(tile);
            added = 0;
        }
        // Those of so many tiles, or what is left.
        [[gnu::always_inline]] void add(int tiles) {
            for (const int end = added + tiles < 4 ? added + tiles : 4; added < end; ++added) {
                const int row_tile = added / 2, panel_tile = added % 2;
                if (panel_tile < panels) add_tile(row_tile, panel_tile, sums[added]);
            }
        }
        void add_all() { add(4); }

      private:
        [[gnu::noinline]] void add_tile(int row_tile, int panel_tile, const Sums& of_tile) const {
            const int64_t first = row + row_tile * kTileRows;
            const int at = panel + panel_tile;
            Totals::add_sums_of_rows(block, k_block, first, rows[row_tile], at, [&](int v) {
                const auto* const of_vector = of_tile[0] + v * S::lanes;
                if constexpr (is_exact) {
                    // Less what quantized values that are shifted have added.
                    const auto first_sums = P::first_sums(block, k_block, at, v);
                    return [=](int64_t r) {
                        return P::to_float(load(of_vector + r * kPanelColumns) +
                                           first_sums(first + r));
                    };
                } else {
                    return [=](int64_t r) { return load(of_vector + r * kPanelColumns); };
                }
            });
        }
        static typename P::Sum load(const typename P::SumOfTile* sums) {
            typename P::Sum sum;
            std::memcpy(&sum, sums, sizeof(sum));
            return sum;
        }
    };

    // What is done between steps.
    struct Meanwhile {
        Fetching fetching;
        SumsBefore sums;
    };

    static void multiply(const Work& work, Pairs& pairs, Meanwhile& meanwhile) {
        pairs.set_shape({{work.rows(0), work.rows(1)},
                         {kPanelColumns, work.panels() == 2 ? kPanelColumns : 0}});
        pairs.with_tiles([&](auto row_tiles, auto panel_tiles) {
            multiply<row_tiles(), panel_tiles()>(work, meanwhile);
        });
    }

    template <int row_tiles, int panel_tiles>
    static void multiply(const Work& work, Meanwhile& meanwhile) {
        Pairs::template for_each_sum<row_tiles, panel_tiles>(
            [](auto tile, auto, auto) { Tiles::template zero<tile()>(); });
        const int64_t length = work.k_block.end - work.k_block.first;
        const int tiles_of_step = length < 2 * depth ? 4 : length < 4 * depth ? 2 : 1;
        int64_t k = 0;
        for (; k + depth <= length; k += depth) {
            multiply_step<row_tiles, panel_tiles>(work, k, work.x(0) + k, work.x(1) + k,
                                                  work.x_bytes(), Pairs::words);
            meanwhile.fetching.fetch(work, k);
            meanwhile.sums.add(tiles_of_step);
        }
        if (k < length) multiply_tail<row_tiles, panel_tiles>(work, k, length - k);
        meanwhile.sums.add_all();
        meanwhile.sums.template take<row_tiles, panel_tiles>(work);
    }

    // `count` words of k from there on, the others are zeros.
    template <int row_tiles, int panel_tiles>
    [[gnu::always_inline]] static void multiply_step(const Work& work, int64_t k, const void* first,
                                                     const void* second, int64_t x_bytes,
                                                     int64_t count) {
        alignas(64) uint32_t room[2][256];
        const uint32_t* words[2] = {};
        for (int tile = 0; tile < panel_tiles; ++tile) {
            words[tile] = work.words[tile] + k / values_of_word * kPanelColumns;
            if (count == Pairs::words) continue;
            const auto bytes = static_cast<size_t>(count * kTileRowBytes);
            std::memcpy(room[tile], words[tile], bytes);
            std::memset(reinterpret_cast<std::byte*>(room[tile]) + bytes, 0,
                        sizeof(room[tile]) - bytes);
            words[tile] = room[tile];
        }
        Pairs::template multiply<P::product, row_tiles, panel_tiles>(
            {Operand{first, x_bytes}, Operand{second, x_bytes}},
            {Operand{words[0], kTileRowBytes}, Operand{words[1], kTileRowBytes}});
    }

    // The last values of k, where they do not fill a tile; nothing is read beyond them.
    template <int row_tiles, int panel_tiles>
    static void multiply_tail(const Work& work, int64_t k, int64_t length) {
        alignas(64) X x[row_tiles][kTileRows][kTileRowBytes / sizeof(X)] = {};
        for (int tile = 0; tile < row_tiles; ++tile) {
            for (int64_t r = 0; r < work.rows(tile); ++r) {
                std::memcpy(x[tile][r], work.x(tile) + r * work.block.x_stride + k,
                            static_cast<size_t>(length) * sizeof(X));
            }
        }
        multiply_step<row_tiles, panel_tiles>(work, k, x[0], x[row_tiles - 1], kTileRowBytes,
                                              length / values_of_word);
    }
};

}  // namespace nvllm::cpu
