// The kernels for AVX-512 with AMX: those of AVX-512, but for products of bfloat16 operands, of
// integers and of quantized values that bfloat16 holds.
#if defined(__x86_64__)
#include "kernels/cpu/attention/attention_vnni_pairs_avx512.h"
#include "kernels/cpu/attention/tile_attention.h"
#include "kernels/cpu/matmul/tile_matmul.h"
#include "kernels/cpu/quantized/dequantize_for_tiles_avx512.h"
#include "kernels/cpu/quantized/integers_vnni.h"
#include "kernels/cpu/quantized/tile_quantized_matmul.h"
#include "kernels/cpu/quantized/tile_weight_stream.h"
#include "kernels/cpu/quantized/vnni_pairs_avx512.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/simd_avx512.h"
#include "kernels/cpu/simd/tiles_amx.h"

namespace nvllm::cpu {
namespace {

struct AmxTiles : AmxInstructions {
    // words[k][row]: values 2 k and 2 k + 1 of a row of x, rounded to bfloat16; of 32 values from
    // `x` on `count` are there, zeros follow. rows: at most 16.
    static void pack_words(const float* x, int64_t stride, int64_t rows, int64_t count,
                           uint32_t* words) {
        const __mmask16 low = mask(count);
        const __mmask16 high = mask(count - 16);
        __m512 columns[16];
        for (int64_t row = 0; row < 16; ++row) {
            columns[row] = row < rows ? rounded(x + row * stride, low, high) : _mm512_setzero_ps();
        }
        if (rows == 1) return _mm512_storeu_ps(words, columns[0]);
        transpose(columns);
        const __mmask16 kept = mask(rows);
        for (int64_t k = 0; k < 16; ++k) {
            _mm512_mask_storeu_ps(words + k * rows, kept, columns[k]);
        }
    }

    // turned[j][i] becomes from[i * stride + j], which may be the same place.
    static void transpose(const float* from, int64_t stride, float (&turned)[16][16]) {
        __m512 rows[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) rows[i] = _mm512_loadu_ps(from + i * stride);
        transpose(rows);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) _mm512_storeu_ps(turned[i], rows[i]);
    }

  private:
    static __mmask16 mask(int64_t count) {
        if (count >= 16) return 0xffff;
        return count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1u);
    }
    static __m512 rounded(const float* x, __mmask16 low, __mmask16 high) {
        return reinterpret_cast<__m512>(_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, x + 16),
                                                            _mm512_maskz_loadu_ps(low, x)));
    }
    // By pairs of rows, then fours, eights and all.
    static void transpose(__m512 (&rows)[16]) {
        __m512 next[16];
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            next[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
            next[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 4) {
            rows[i] = join_low(next[i], next[i + 2]);
            rows[i + 1] = join_high(next[i], next[i + 2]);
            rows[i + 2] = join_low(next[i + 1], next[i + 3]);
            rows[i + 3] = join_high(next[i + 1], next[i + 3]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 4; ++i) {
            next[i] = _mm512_shuffle_f32x4(rows[i], rows[i + 4], 0x88);
            next[i + 4] = _mm512_shuffle_f32x4(rows[i], rows[i + 4], 0xdd);
            next[i + 8] = _mm512_shuffle_f32x4(rows[i + 8], rows[i + 12], 0x88);
            next[i + 12] = _mm512_shuffle_f32x4(rows[i + 8], rows[i + 12], 0xdd);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            rows[i] = _mm512_shuffle_f32x4(next[i], next[i + 8], 0x88);
            rows[i + 8] = _mm512_shuffle_f32x4(next[i], next[i + 8], 0xdd);
        }
    }
    static __m512 join_low(__m512 a, __m512 b) {
        return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
    static __m512 join_high(__m512 a, __m512 b) {
        return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
};

// Fewer rows leave most of a tile product's work unused while memory is what is waited for.
constexpr int64_t kMinRowsOfTiles = 8;

template <class W>
void multiply_pairs(const QuantizedBlock& block) {
    multiply_pairs_by_tiles<AmxTiles, Avx512Dequantizer, W>(block);
}

void multiply_int4(const QuantizedBlock& block) {
    if (block.zero_points == nullptr) {
        multiply_pairs<DequantizedParts<Int4Parts<NibbleVnniPairs<Int4Values>>>>(block);
    } else {
        multiply_pairs<DequantizedDifferences>(block);
    }
}

template <size_t code, class Parts>
void multiply_integers(const QuantizedBlock& block) {
    if (block.rows < kMinRowsOfTiles) {
        avx512vnni_kernels().multiply_integers[code](block);
    } else {
        TileQuantizedMatmul<AmxTiles, Parts>::multiply(block);
    }
}

// Products of `depth` values of k.
template <TileProduct product, int64_t depth>
double tile_loop(int64_t rounds) {
    constexpr int accumulators = 4;
    TileShapes shapes;
    for (TileShape& shape : shapes.of) shape = {kTileRows, kTileRowBytes};
    AmxTiles::configure(shapes);
    for (int64_t round = 0; round < rounds; ++round) {
        AmxTiles::multiply<product, 0, 4, 6>();
        AmxTiles::multiply<product, 1, 4, 7>();
        AmxTiles::multiply<product, 2, 5, 6>();
        AmxTiles::multiply<product, 3, 5, 7>();
    }
    AmxTiles::release();
    return 2.0 * accumulators * kTileRows * kTileRows * depth;
}

Kernels table_with_tiles() {
    constexpr auto bf16 = static_cast<size_t>(FloatType::bf16);
    Kernels table = avx512_kernels();
    table.matmul[bf16][bf16] = tile_matmul_kernels<AmxTiles>();
    table.attention_vnni_pairs =
        tile_attention_matmuls<AmxTiles, AttentionVnniPairs>(AttentionVnniPairs::pack);
    using ops::WeightFormat;
    const auto pairs_of = [&](WeightFormat code) -> QuantizedVnniPairs& {
        return table.quantized.pairs[static_cast<size_t>(code)];
    };
    pairs_of(WeightFormat::int4) = {multiply_int4, arrange_for_nibbles, true};
    pairs_of(WeightFormat::int8) = {multiply_pairs<DequantizedInt8>, arrange_for_bytes};
    pairs_of(WeightFormat::float4) = {
        multiply_pairs<DequantizedParts<Int4Parts<NibbleVnniPairs<Float4Values>>>>,
        arrange_for_nibbles};
    pairs_of(WeightFormat::float8) = {multiply_pairs<DequantizedParts<Int8Parts<Float8VnniPairs>>>,
                                      arrange_for_bytes};
    pairs_of(WeightFormat::sparse_bfloat16) = {
        multiply_pairs<DequantizedSparsePairs<WeightFormat::sparse_bfloat16>>, arrange_as_they_are};
    pairs_of(WeightFormat::sparse_float8) = {
        multiply_pairs<DequantizedSparsePairs<WeightFormat::sparse_float8>>, arrange_as_they_are};
    table.quantized.multiply_integers[0] = multiply_integers<0, TileInt4<VnniIntegers>>;
    table.quantized.multiply_integers[1] = multiply_integers<1, TileInt8<VnniIntegers>>;
    table.bfloat16_loop = tile_loop<TileProduct::bfloat16, 32>;
    table.quantized.int8_loop = tile_loop<TileProduct::unsigned_by_signed, 64>;
    return table;
}

}  // namespace

const Kernels& avx512amx_kernels() {
    static const Kernels table = table_with_tiles();
    return table;
}

}  // namespace nvllm::cpu
#endif
