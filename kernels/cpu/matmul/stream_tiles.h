// One tile of weights by up to six panels of x, each a tile.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cpu/simd/tile_shape.h"

namespace nvllm::cpu {

constexpr int kMaxStreamPanels = 6;  // the other two tiles hold weights and a panel

// There are two halves of sums, where that many tiles are left: sums of weights before are stored
// from one of them while the other is added to. Tiles: as AmxTiles.
template <class Tiles, int panels>
class StreamTiles {
  public:
    static constexpr int halves = panels <= kMaxStreamPanels / 2 ? 2 : 1;

    // x_rows: of a panel, with those that are only multiplied to fill its tile.
    static void set_shape(int64_t weight_rows, int64_t x_rows) {
        const auto shape = [](int64_t rows, int64_t words) {
            return TileShape{static_cast<uint8_t>(rows), static_cast<uint8_t>(words * 4)};
        };
        TileShapes tiles{};
        for (int i = 0; i < halves * panels; ++i) tiles.of[i] = shape(weight_rows, x_rows);
        tiles.of[kWeights] = shape(weight_rows, kWords);
        tiles.of[kX] = shape(kWords, x_rows);
        Tiles::configure(tiles);
    }

    template <int half>
    static void zero() {
        for_each_panel([](auto panel) { Tiles::template zero<sum_of(half, panel)>(); });
    }
    // Adds the products of one step of k. Weight rows lie `stride` bytes apart, panels of x
    // `panel_bytes` from `x` on, but for the last one, whose words lie `last_stride` bytes apart.
    template <int half>
    [[gnu::always_inline]] static void multiply(const std::byte* weights, int64_t stride,
                                                const std::byte* x, int64_t panel_bytes,
                                                const std::byte* last, int64_t last_stride) {
        Tiles::template load<kWeights>(weights, stride);
        for_each_panel([&](auto panel) {
            constexpr int number = panel;
            constexpr bool is_last = number + 1 == panels;
            Tiles::template load<kX>(is_last ? last : x + number * panel_bytes,
                                     is_last ? last_stride : kTileRowBytes);
            Tiles::template multiply<TileProduct::bfloat16, sum_of(half, number), kWeights, kX>();
        });
    }
    // sums: [weight rows][panels][16], weight rows `spacing` bytes apart.
    template <int half>
    [[gnu::always_inline]] static void store(float* sums, int64_t spacing) {
        for_each_panel([&](auto panel) {
            constexpr int number = panel;
            Tiles::template store<sum_of(half, number)>(sums + number * kTileRows, spacing);
        });
    }

  private:
    static constexpr int kWeights = 6;
    static constexpr int kX = 7;
    static constexpr int64_t kWords = kTileRowBytes / 4;  // of k

    static constexpr int sum_of(int half, int panel) { return half * panels + panel; }

    // Calls body(panel) for each, as a constant.
    template <typename Body>
    [[gnu::always_inline]] static void for_each_panel(Body body) {
        call(body, std::make_integer_sequence<int, panels>());
    }
    template <typename Body, int... panel>
    [[gnu::always_inline]] static void call(Body body, std::integer_sequence<int, panel...>) {
        (body(std::integral_constant<int, panel>()), ...);
    }
};

}  // namespace nvllm::cpu
