// Four tiles of sums: two tiles of left operands by two tiles of right ones, or one of either.
//
// Each factor that is loaded is used twice, the most that eight tiles allow. The order of a sum of
// bfloat16 products is the instruction's: of each 32 values of k those at even places are
// multiplied and added one after the other, so are those at odd places, and both together are added
// to what was there. It depends neither on what else is in a tile nor on which factor is the left
// one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/simd/tile_shape.h"

namespace nvllm::cpu {

// Rows of the left operands and columns of the right ones; 0 in the second place: there is none.
struct TilePairShape {
    int64_t rows[2];
    int64_t columns[2];
};

// Tiles: as AmxTiles; they are released in the end. num_words: of k, in a tile.
template <class Tiles, int64_t num_words = 16>
class TilePairs {
  public:
    static constexpr int64_t words = num_words;

    // Where factors of a step lie, rows `stride` bytes apart.
    struct Operand {
        const void* rows;
        int64_t stride;
    };

    ~TilePairs() { Tiles::release(); }
    TilePairs() = default;
    TilePairs(const TilePairs&) = delete;
    TilePairs& operator=(const TilePairs&) = delete;

    // Takes the time of ten tile products, so it is done when the shape changes.
    void set_shape(const TilePairShape& shape) {
        if (is_set(shape)) return;
        shape_ = shape;
        TileShapes tiles{};
        for (int i = 0; i < 2; ++i) {
            for (int j = 0; j < 2; ++j) {
                tiles.of[sum_of(i, j)] = tile(shape.rows[i], shape.columns[j]);
            }
            tiles.of[kLeft + i] = tile(shape.rows[i], words);
            tiles.of[kRight + i] = tile(words, shape.columns[i]);
        }
        Tiles::configure(tiles);
    }

    // Calls body(left tiles, right tiles), both as constants, for the shape that is set.
    template <typename Body>
    void with_tiles(Body body) const {
        constexpr std::integral_constant<int, 1> one;
        constexpr std::integral_constant<int, 2> two;
        if (shape_.columns[1] > 0) {
            shape_.rows[1] > 0 ? body(two, two) : body(one, two);
        } else {
            shape_.rows[1] > 0 ? body(two, one) : body(one, one);
        }
    }

    // Calls body(tile, left tile, right tile), all as constants, for each tile of sums.
    template <int left, int right, typename Body>
    static void for_each_sum(Body body) {
        constexpr std::integral_constant<int, 0> zero;
        constexpr std::integral_constant<int, 1> one;
        body(zero, zero, zero);
        if constexpr (right > 1) body(one, zero, one);
        if constexpr (left > 1) body(std::integral_constant<int, 2>(), one, zero);
        if constexpr (left > 1 && right > 1) body(std::integral_constant<int, 3>(), one, one);
    }

    template <TileProduct product, int left, int right>
    [[gnu::always_inline]] static void multiply(const Operand (&lefts)[2],
                                                const Operand (&rights)[2]) {
        load<kLeft>(lefts[0]);
        load<kRight>(rights[0]);
        Tiles::template multiply<product, 0, kLeft, kRight>();
        if constexpr (right > 1) {
            load<kRight + 1>(rights[1]);
            Tiles::template multiply<product, 1, kLeft, kRight + 1>();
        }
        if constexpr (left > 1) {
            load<kLeft + 1>(lefts[1]);
            Tiles::template multiply<product, 2, kLeft + 1, kRight>();
        }
        if constexpr (left > 1 && right > 1) {
            Tiles::template multiply<product, 3, kLeft + 1, kRight + 1>();
        }
    }

    static constexpr int sum_of(int left, int right) { return 2 * left + right; }

  private:
    static constexpr int kLeft = 4;
    static constexpr int kRight = 6;

    bool is_set(const TilePairShape& shape) const {
        bool same = true;
        for (int i = 0; i < 2; ++i) {
            same = same && shape.rows[i] == shape_.rows[i] && shape.columns[i] == shape_.columns[i];
        }
        return same;
    }
    static TileShape tile(int64_t rows, int64_t words) {
        if (rows == 0 || words == 0) return {};
        return {static_cast<uint8_t>(rows), static_cast<uint8_t>(words * 4)};
    }
    template <int number>
    [[gnu::always_inline]] static void load(const Operand& factor) {
        Tiles::template load<number>(factor.rows, factor.stride);
    }

    TilePairShape shape_{};
};

}  // namespace nvllm::cpu
