// Products of attention by tiles: keys and values as words of two bfloat16.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention_matmuls.h"
#include "kernels/cpu/attention/decode_attention.h"
#include "kernels/cpu/matmul/tile_pairs.h"
#include "kernels/cpu/simd/kernels.h"

namespace nvllm::cpu {

// Tiles: as AmxTiles; S: vectors.
template <class Tiles, class S>
class TileAttention {
  public:
    // As AttentionMatmuls::outer_product; depth is a multiple of a tile's words, width of 16.
    static void outer_product(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                              float* c, int64_t c_stride, int64_t rows, int64_t depth,
                              int64_t width, const float* factor) {
        Pairs pairs;
        for (int64_t row = 0; row < rows; row += together) {
            const int64_t count = least(rows - row);
            float* const sums = c + row * c_stride;
            if (factor != nullptr) scale(sums, c_stride, count, width, factor + row);
            for (int64_t column = 0; column < width; column += together) {
                const int64_t columns = least(width - column);
                pairs.set_shape({{first(count), count - first(count)},
                                 {first(columns), columns - first(columns)}});
                pairs.with_tiles([&](auto row_tiles, auto column_tiles) {
                    multiply<row_tiles(), column_tiles()>(
                        {a + row * a_stride, a_stride}, {b + column, b_stride},
                        {sums + column, c_stride}, depth, factor != nullptr);
                });
            }
        }
    }

  private:
    using Pairs = TilePairs<Tiles>;
    using Operand = typename Pairs::Operand;
    static constexpr int64_t together = 2 * kTileRows;

    static int64_t least(int64_t left) { return left < together ? left : together; }
    // Of so many, those of the first tile.
    static int64_t first(int64_t count) { return count < kTileRows ? count : kTileRows; }
    static void scale(float* rows, int64_t stride, int64_t count, int64_t width,
                      const float* factors) {
        for (int64_t row = 0; row < count; ++row, rows += stride) {
            const typename S::F factor = S::set(factors[row]);
            for (int64_t i = 0; i < width; i += S::lanes) {
                S::store(rows + i, S::mul(S::load(rows + i), factor));
            }
        }
    }

    template <typename Word>
    struct Matrix {
        Word* words;
        int64_t stride;  // in words
        int64_t stride_bytes() const { return stride * static_cast<int64_t>(sizeof(Word)); }
    };

    template <int row_tiles, int column_tiles>
    static void multiply(const Matrix<const float>& a, const Matrix<const float>& b,
                         const Matrix<float>& c, int64_t depth, bool adds) {
        const auto sums_of = [&](auto row_tile, auto column_tile) {
            return c.words + row_tile() * kTileRows * c.stride + column_tile() * kTileRows;
        };
        Pairs::template for_each_sum<row_tiles, column_tiles>(
            [&](auto tile, auto row_tile, auto column_tile) {
                if (adds) {
                    Tiles::template load<tile()>(sums_of(row_tile, column_tile), c.stride_bytes());
                } else {
                    Tiles::template zero<tile()>();
                }
            });
        for (int64_t k = 0; k < depth; k += Pairs::words) {
            const float* left = a.words + k;
            const float* right = b.words + k * b.stride;
            Pairs::template multiply<TileProduct::bfloat16, row_tiles, column_tiles>(
                {Operand{left, a.stride_bytes()},
                 Operand{left + kTileRows * a.stride, a.stride_bytes()}},
                {Operand{right, b.stride_bytes()}, Operand{right + kTileRows, b.stride_bytes()}});
        }
        Pairs::template for_each_sum<row_tiles, column_tiles>(
            [&](auto tile, auto row_tile, auto column_tile) {
                Tiles::template store<tile()>(sums_of(row_tile, column_tile), c.stride_bytes());
            });
    }
};

// M: how keys and values become words, as in attention_matmuls.h; pack: rows of factors.
template <class Tiles, class M>
AttentionMatmuls tile_attention_matmuls(void (*pack)(float*, int64_t, int64_t, int64_t)) {
    using Loads = AttentionMatmulKernels<M>;
    return {.step = M::step,
            .words_at_once = TilePairs<Tiles>::words,
            .pack = pack,
            .load_keys = Loads::load_keys,
            .load_values = Loads::load_values,
            .outer_product = TileAttention<Tiles, typename M::Simd>::outer_product,
            .decode_scores = DecodeAttention<typename M::Simd>::decode_scores,
            .decode_matmul = DecodeAttention<typename M::Simd>::decode_matmul};
}

}  // namespace nvllm::cpu
