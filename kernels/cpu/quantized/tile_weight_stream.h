// Products of a few rows of x with panels of quantized values by tiles: quantized values become
// pairs of bfloat16 as they come from memory, a step of k ahead of the tile products that take
// them.
//
// The order of sums is that of TileQuantizedMatmul, which dequantizes a K-block at once: with few
// rows of x memory would rest while its products are taken.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cpu/quantized/quantized_tile.h"
#include "kernels/cpu/quantized/tile_quantized_matmul.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/tile_shape.h"

namespace nvllm::cpu {

// Tiles: as AmxTiles; P: as TileDequantizedPairs; num_words: of k, in a step, which all K-blocks
// are whole numbers of.
template <class Tiles, class P, int64_t num_words>
class TileWeightStream {
  public:
    static constexpr int64_t max_rows = kTileRows;

    static void multiply(const QuantizedBlock& block) {
        TileShapes shapes{};
        const auto rows = static_cast<uint8_t>(block.rows);
        for (int panel = 0; panel < block.panels; ++panel) shapes.of[panel] = {rows, kTileRowBytes};
        shapes.of[kLeft] = {rows, 4 * num_words};
        for (int i = 0; i < kRights; ++i) shapes.of[kRight + i] = {num_words, kTileRowBytes};
        // Never released: the next block has the same shapes.
        Tiles::configure(shapes);
        if (block.panels == 4) {
            stream<4>(block, 0);
        } else {
            for (int panel = 0; panel < block.panels; ++panel) stream<1>(block, panel);
        }
    }

  private:
    using S = typename P::Simd;
    using Totals = QuantizedTile<P>;
    using Words = uint32_t[num_words][kPanelColumns];
    using Sums = float[kTileRows][kPanelColumns];
    static constexpr int kLeft = 4;  // behind the sums of each panel
    static constexpr int kRight = 5;
    static constexpr int kRights = 3;
    static constexpr int64_t depth = 2 * num_words;

    template <int panels>
    static void stream(const QuantizedBlock& block, int first_panel) {
        alignas(64) Words room[2][panels];
        int now = 0;  // the half of the room that is multiplied next
        dequantize_step<panels>(block, 0, first_panel, 0, room[now]);
        for (int64_t k = 0; k < block.in;) {
            const QuantizedKBlock k_block = k_block_at(block, k, P::longest_k_block);
            for_each_panel<panels>([](auto panel) { Tiles::template zero<panel()>(); });
            for (; k < k_block.end; k += depth, now = 1 - now) {
                load_x(block, k);
                const int64_t next_k = k + depth;
                if (next_k == block.in) {
                    multiply_step<panels>(room[now]);
                } else {
                    const int64_t group =
                        next_k < k_block.end ? k_block.group : next_k / block.group_size;
                    dequantize_and_multiply_step<panels>(block, group, first_panel, next_k,
                                                         room[1 - now], room[now]);
                }
            }
            for_each_panel<panels>(
                [&](auto panel) { add_sums<panel()>(block, k_block, first_panel + panel); });
        }
    }

    // Steps are given values: what a lambda has by reference is read again after each instruction
    // of tiles.
    template <int panels>
    [[gnu::always_inline]] static void dequantize_step(const QuantizedBlock& block, int64_t group,
                                                       int first_panel, int64_t k, Words* room) {
        for_each_panel<panels>([=, &block](auto panel) {
            dequantize(block, group, first_panel + panel, k, room[panel]);
        });
    }
    template <int panels>
    [[gnu::always_inline]] static void multiply_step(const Words* room) {
        for_each_panel<panels>([=](auto panel) { multiply<panel()>(room[panel]); });
    }
    template <int panels>
    [[gnu::always_inline]] static void dequantize_and_multiply_step(const QuantizedBlock& block,
                                                                    int64_t group, int first_panel,
                                                                    int64_t next_k, Words* next,
                                                                    const Words* now) {
        for_each_panel<panels>([=, &block](auto panel) {
            dequantize(block, group, first_panel + panel, next_k, next[panel]);
            multiply<panel()>(now[panel]);
        });
    }

    // In a loop over panels tiles would have no names.
    template <int panels, typename Body>
    [[gnu::always_inline]] static void for_each_panel(Body body) {
        [&]<int... panel>(std::integer_sequence<int, panel...>) {
            (body(std::integral_constant<int, panel>()), ...);
        }
        (std::make_integer_sequence<int, panels>());
    }

    [[gnu::always_inline]] static void load_x(const QuantizedBlock& block, int64_t k) {
        const auto* const x = static_cast<const BFloat16*>(block.x) + k;
        Tiles::template load<kLeft>(x, block.x_stride * static_cast<int64_t>(sizeof(*x)));
    }

    [[gnu::always_inline]] static void dequantize(const QuantizedBlock& block, int64_t group,
                                                  int panel, int64_t k, Words& words) {
        P::dequantize(P::dequantizer_of(block, panel, group), P::packed_words(block, panel, k),
                      depth, words[0]);
    }

    template <int tile>
    [[gnu::always_inline]] static void multiply(const Words& words) {
        constexpr int right = kRight + tile % kRights;
        Tiles::template load<right>(words, kTileRowBytes);
        Tiles::template multiply<TileProduct::bfloat16, tile, kLeft, right>();
    }

    template <int tile>
    static void add_sums(const QuantizedBlock& block, const QuantizedKBlock& k_block, int panel) {
        alignas(64) Sums sums;
        Tiles::template store<tile>(sums, kTileRowBytes);
        Totals::add_sums_of_rows(block, k_block, 0, block.rows, panel, [&](int v) {
            const float* const of_vector = sums[0] + v * S::lanes;
            return [=](int64_t row) { return S::load(of_vector + row * kPanelColumns); };
        });
    }
};

template <class Tiles, class P, int64_t num_words>
void multiply_in_steps(const QuantizedBlock& block) {
    if (block.rows <= TileWeightStream<Tiles, P, num_words>::max_rows) {
        TileWeightStream<Tiles, P, num_words>::multiply(block);
    } else {
        TileQuantizedMatmul<Tiles, P, num_words>::multiply(block);
    }
}

// In steps of 32 values of k, or of 16 where groups are no longer. W: as TileDequantizedPairs has
// it.
template <class Tiles, class C, class W>
void multiply_pairs_by_tiles(const QuantizedBlock& block) {
    using Codes = TileDequantizedPairs<C, W>;
    const auto has_whole = [&](int64_t depth) {
        return block.in % depth == 0 && block.group_size % depth == 0 &&
               (block.x_scales == nullptr || block.x_group_size % depth == 0);
    };
    if (has_whole(32)) return multiply_in_steps<Tiles, Codes, 16>(block);
    if constexpr (W::depth <= 16) {
        if (has_whole(16)) return multiply_in_steps<Tiles, Codes, 8>(block);
    }
    TileQuantizedMatmul<Tiles, Codes>::multiply(block);
}

}  // namespace nvllm::cpu
