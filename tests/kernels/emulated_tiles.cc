#include "emulated_tiles.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <utility>

#include "kernels/cpu/attention/tile_attention.h"
#include "kernels/cpu/matmul/tile_matmul.h"
#include "kernels/cpu/quantized/tile_quantized_matmul.h"
#include "kernels/cpu/quantized/tile_weight_stream.h"
#include "kernels/cpu/simd/simd_scalar.h"
#include "kernels/error.h"

namespace testing {

using nvllm::BFloat16;
using nvllm::cpu::kNumTiles;
using nvllm::cpu::kTileRowBytes;
using nvllm::cpu::kTileRows;
using nvllm::cpu::TileShape;

namespace {

struct Tile {
    TileShape shape{};
    uint32_t words[kTileRows][kTileRowBytes / 4] = {};

    int num_words() const { return shape.row_bytes / 4; }
};

thread_local std::array<Tile, kNumTiles> tiles;

Tile& configured(int tile) {
    Tile& found = tiles[static_cast<size_t>(tile)];
    NVLLM_CHECK(found.shape.rows > 0 && found.shape.row_bytes > 0, "a tile without a shape");
    return found;
}

void check_shapes(const Tile& sums, const Tile& left, const Tile& right) {
    NVLLM_CHECK(sums.shape.rows == left.shape.rows &&
                    sums.shape.row_bytes == right.shape.row_bytes &&
                    left.num_words() == right.shape.rows,
                "tiles whose shapes do not fit");
}

// The instructions know no subnormal numbers.
float flushed(float x) { return std::abs(x) < FLT_MIN ? std::copysign(0.0f, x) : x; }

float as_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return flushed(value);
}
float low(uint32_t pair) { return as_float(pair << 16); }
float high(uint32_t pair) { return as_float(pair & 0xffff0000u); }

// The products of bfloat16 operands that are neither subnormal nor too large are float32 numbers,
// so that a multiplication and an addition do what the instruction's fused ones do.
bool products_are_exact(const Tile& a, const Tile& b) {
    double least = 1, most = 1;
    for (const Tile* tile : {&a, &b}) {
        double min_here = FLT_MAX, max_here = 0;
        for (int row = 0; row < tile->shape.rows; ++row) {
            for (int word = 0; word < tile->num_words(); ++word) {
                for (const float x : {low(tile->words[row][word]), high(tile->words[row][word])}) {
                    const double size = std::abs(static_cast<double>(x));
                    if (size > 0) min_here = std::min(min_here, size);
                    max_here = std::max(max_here, size);
                }
            }
        }
        least *= min_here;
        most *= max_here;
    }
    return least >= FLT_MIN && most <= FLT_MAX;
}

float multiply_add(float a, float b, float sum) { return flushed(std::fma(a, b, sum)); }

using Four = float __attribute__((vector_size(16)));
using FourBits = int32_t __attribute__((vector_size(16)));

// sum + a * b, four times.
void multiply_add(float a, const float* b, float* sum) {
    Four factors, sums;
    std::memcpy(&factors, b, sizeof(factors));
    std::memcpy(&sums, sum, sizeof(sums));
    sums = sums + Four{a, a, a, a} * factors;
    FourBits bits;
    std::memcpy(&bits, &sums, sizeof(bits));
    const FourBits normal = (bits & 0x7fffffff) >= 0x00800000;
    bits &= normal | static_cast<int32_t>(0x80000000u);
    std::memcpy(sum, &bits, sizeof(bits));
}

// Keys and values as words of two bfloat16.
struct EmulatedPairs {
    using Simd = nvllm::cpu::Scalar;
    using Value = BFloat16;
    using F = Simd::F;
    static constexpr int64_t step = 2;

    static F load(const BFloat16* p, ptrdiff_t stride) { return load(p, stride, Simd::lanes); }
    static F load(const BFloat16* p, ptrdiff_t stride, int64_t count) {
        BFloat16 pairs[2 * Simd::lanes] = {};
        for (int64_t i = 0; i < count; ++i) {
            pairs[2 * i] = p[i];
            pairs[2 * i + 1] = p[i + stride];
        }
        F words;
        std::memcpy(&words, pairs, sizeof(words));
        return words;
    }
    static void pack(float* rows, int64_t stride, int64_t num_rows, int64_t count) {
        for (int64_t row = 0; row < num_rows; ++row, rows += stride) {
            for (int64_t i = 0; i < count; ++i) {
                const BFloat16 narrow(rows[i]);
                std::memcpy(reinterpret_cast<char*>(rows) + i * 2, &narrow, sizeof(narrow));
            }
        }
    }
};

// Quantized values arranged and shifted as VNNI wants them.
struct EmulatedDequantizer : nvllm::cpu::ScalarDequantizer {
    using X = int8_t;
    static constexpr int int4_parts = 2;
    static constexpr int int8_parts = 1;
    static constexpr int int4_order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    static constexpr int int8_order[4] = {0, 1, 2, 3};
    static constexpr bool int4_is_shifted = true;
    static constexpr bool x_is_shifted = true;

    static Sum set_sums(int32_t value) { return Sum{value, value, value, value}; }
    static Sum load_sums(const int32_t* p) {
        Sum sums;
        std::memcpy(&sums, p, sizeof(sums));
        return sums;
    }
    template <int part>
    static Words int4_weights(Words words) {
        return words >> (4 * part) & 0x0f0f0f0f;
    }
    static Words less_eight(Words words) {
        using Bytes = int8_t __attribute__((vector_size(sizeof(Words))));
        return reinterpret_cast<Words>(reinterpret_cast<Bytes>(words) - int8_t{8});
    }
};

template <class Parts>
void multiply_integers(const nvllm::cpu::QuantizedBlock& block) {
    nvllm::cpu::TileQuantizedMatmul<EmulatedTiles, Parts>::multiply(block);
}

using nvllm::ops::WeightFormat;

// Which values of k are neighbours in pairs of such quantized values, first those of the first
// pair.
template <WeightFormat code>
constexpr std::array<int, 8> order_of_pairs() {
    using nvllm::cpu::ScalarDequantizer;
    std::array<int, 8> order{0, 1, 2, 3, 4, 5, 6, 7};
    const bool nibbles = code == WeightFormat::int4 || code == WeightFormat::float4;
    for (size_t i = 0; i < order.size() && !nvllm::ops::is_sparse(code); ++i) {
        order[i] = nibbles ? ScalarDequantizer::int4_order[i]
                           : ScalarDequantizer::int8_order[i % 4] + static_cast<int>(i / 4 * 4);
    }
    return order;
}

template <WeightFormat code>
void arrange_pairs(const float* x, int64_t count, void* arranged) {
    auto* out = static_cast<BFloat16*>(arranged);
    for (int64_t k = 0; k < count; k += 8) {
        for (const int from : order_of_pairs<code>()) *out++ = BFloat16(x[k + from]);
    }
}

// Value by value, for sixteen columns.
template <WeightFormat code>
class DequantizedSingly {
    using Codes = nvllm::cpu::ScalarDequantizer;
    static constexpr int columns = nvllm::cpu::kPanelColumns;
    static constexpr bool is_sparse = nvllm::ops::is_sparse(code);
    static constexpr bool nibbles = code == WeightFormat::int4 || code == WeightFormat::float4;

  public:
    static constexpr int depth = is_sparse ? nvllm::cpu::kSparseDepth : nibbles ? 8 : 4;
    static constexpr int words = is_sparse ? nvllm::cpu::sparse_words(code) : 1;
    static constexpr int parts = depth / 2;
    using Pairs = std::array<uint32_t, columns>;

    explicit DequantizedSingly(const int8_t* zero_points) : zero_points_(zero_points) {}

    template <int part>
    Pairs pair(const uint32_t* at) const {
        Pairs pairs;
        for (int column = 0; column < columns; ++column) {
            constexpr std::array<int, 8> order = order_of_pairs<code>();
            const auto value = [&](int i) {
                const int k = i / 8 * 8 + order[static_cast<size_t>(i % 8)];
                return is_sparse ? kept(at, column, k) : dequantized(at[column], column, k);
            };
            const BFloat16 both[2] = {BFloat16(value(2 * part)), BFloat16(value(2 * part + 1))};
            std::memcpy(&pairs[static_cast<size_t>(column)], both, sizeof(both));
        }
        return pairs;
    }

  private:
    static float float8(uint32_t byte) {
        return Codes::float8<0>(Codes::Words{static_cast<int32_t>(byte)})[0];
    }
    float dequantized(uint32_t word, int column, int k) const {
        const uint32_t bits = word >> (nibbles ? 4 * k : 8 * k);
        const Codes::Words words{static_cast<int32_t>(bits)};
        if constexpr (code == WeightFormat::int4) {
            const int zero = zero_points_ == nullptr ? 0 : zero_points_[column];
            return Codes::int4<0>(words)[0] - static_cast<float>(zero);
        }
        if constexpr (code == WeightFormat::int8) return Codes::int8<0>(words)[0];
        if constexpr (code == WeightFormat::float4) return Codes::float4<0>(words)[0];
        return float8(bits & 255);
    }
    // As quantized_layout.h has it.
    static float kept(const uint32_t* at, int column, int k) {
        const int four = k / 4;
        const uint32_t places = at[column] >> (4 * four);
        const bool is_first = static_cast<int>(places & 3) == k % 4;
        if (!is_first && static_cast<int>(places >> 2 & 3) != k % 4) return 0.0f;
        if constexpr (code == WeightFormat::sparse_float8) {
            const uint32_t word = at[(1 + four / 2) * columns + column];
            return float8(word >> (8 * (four % 2) + (is_first ? 0 : 16)) & 255);
        }
        const uint32_t word = at[(1 + four) * columns + column];
        return is_first ? low(word) : high(word);
    }

    const int8_t* zero_points_;
};

template <WeightFormat code>
void multiply_pairs(const nvllm::cpu::QuantizedBlock& block) {
    nvllm::cpu::multiply_pairs_by_tiles<EmulatedTiles, nvllm::cpu::ScalarDequantizer,
                                        DequantizedSingly<code>>(block);
}

template <WeightFormat... code>
void add_pairs(nvllm::cpu::QuantizedKernels& quantized) {
    ((quantized.pairs[static_cast<size_t>(code)] = {multiply_pairs<code>, arrange_pairs<code>,
                                                    code == WeightFormat::int4}),
     ...);
}

nvllm::cpu::Kernels table_with_emulated_tiles() {
    constexpr auto bf16 = static_cast<size_t>(nvllm::cpu::FloatType::bf16);
    nvllm::cpu::Kernels table = nvllm::cpu::scalar_kernels();
    table.matmul[bf16][bf16] = nvllm::cpu::tile_matmul_kernels<EmulatedTiles>();
    table.attention_vnni_pairs =
        nvllm::cpu::tile_attention_matmuls<EmulatedTiles, EmulatedPairs>(EmulatedPairs::pack);
    nvllm::cpu::QuantizedKernels& quantized = table.quantized;
    add_pairs<WeightFormat::int4, WeightFormat::int8, WeightFormat::float4, WeightFormat::float8,
              WeightFormat::sparse_bfloat16, WeightFormat::sparse_float8>(quantized);
    quantized.multiply_integers[0] = multiply_integers<nvllm::cpu::TileInt4<EmulatedDequantizer>>;
    quantized.multiply_integers[1] = multiply_integers<nvllm::cpu::TileInt8<EmulatedDequantizer>>;
    quantized.arrange[0] = nvllm::cpu::arrange_quantized<EmulatedDequantizer, WeightFormat::int4>;
    quantized.arrange[1] = nvllm::cpu::arrange_quantized<EmulatedDequantizer, WeightFormat::int8>;
    for (size_t& bytes : quantized.integer_bytes) bytes = sizeof(EmulatedDequantizer::X);
    return table;
}

}  // namespace

void EmulatedTiles::configure(const nvllm::cpu::TileShapes& shapes) {
    for (size_t i = 0; i < tiles.size(); ++i) {
        const TileShape& shape = shapes.of[i];
        NVLLM_CHECK(shape.rows <= kTileRows && shape.row_bytes <= kTileRowBytes,
                    "a tile is larger than a register");
        tiles[i] = {shape, {}};
    }
}

void EmulatedTiles::release() { configure({}); }

void EmulatedTiles::zero_tile(int tile) {
    std::memset(configured(tile).words, 0, sizeof(Tile::words));
}

void EmulatedTiles::load_tile(int tile, const void* rows, int64_t stride) {
    Tile& to = configured(tile);
    zero_tile(tile);
    for (int64_t row = 0; row < to.shape.rows; ++row) {
        std::memcpy(to.words[row], static_cast<const std::byte*>(rows) + row * stride,
                    to.shape.row_bytes);
    }
}

void EmulatedTiles::store_tile(int tile, void* rows, int64_t stride) {
    const Tile& from = configured(tile);
    for (int64_t row = 0; row < from.shape.rows; ++row) {
        std::memcpy(static_cast<std::byte*>(rows) + row * stride, from.words[row],
                    from.shape.row_bytes);
    }
}

// TDPBF16PS
void EmulatedTiles::multiply_bf16(int sum, int left, int right) {
    Tile& c = configured(sum);
    const Tile& a = configured(left);
    const Tile& b = configured(right);
    check_shapes(c, a, b);
    const bool exact = products_are_exact(a, b);
    float even_operands[kTileRows][kTileRows] = {}, odd_operands[kTileRows][kTileRows] = {};
    for (int k = 0; k < b.shape.rows; ++k) {
        for (int n = 0; n < b.num_words(); ++n) {
            even_operands[k][n] = low(b.words[k][n]);
            odd_operands[k][n] = high(b.words[k][n]);
        }
    }
    for (int m = 0; m < c.shape.rows; ++m) {
        float even[kTileRows] = {}, odd[kTileRows] = {};
        for (int k = 0; k < a.num_words(); ++k) {
            const float even_operand = low(a.words[m][k]);
            const float odd_operand = high(a.words[m][k]);
            for (int n = 0; exact && n < c.num_words(); n += 4) {
                multiply_add(even_operand, even_operands[k] + n, even + n);
                multiply_add(odd_operand, odd_operands[k] + n, odd + n);
            }
            for (int n = 0; !exact && n < c.num_words(); ++n) {
                even[n] = multiply_add(even_operand, even_operands[k][n], even[n]);
                odd[n] = multiply_add(odd_operand, odd_operands[k][n], odd[n]);
            }
        }
        for (int n = 0; n < c.num_words(); ++n) {
            const float total = flushed(as_float(c.words[m][n]) + flushed(even[n] + odd[n]));
            std::memcpy(&c.words[m][n], &total, sizeof(total));
        }
    }
}

// TDPBUSD and TDPBSSD
template <typename Left, typename Right>
void EmulatedTiles::multiply_bytes(int sum, int left, int right) {
    Tile& c = configured(sum);
    const Tile& a = configured(left);
    const Tile& b = configured(right);
    check_shapes(c, a, b);
    for (int m = 0; m < c.shape.rows; ++m) {
        for (int n = 0; n < c.num_words(); ++n) {
            uint32_t total = c.words[m][n];
            for (int k = 0; k < a.num_words(); ++k) {
                for (int shift = 0; shift < 32; shift += 8) {
                    total += static_cast<uint32_t>(static_cast<Left>(a.words[m][k] >> shift) *
                                                   static_cast<Right>(b.words[k][n] >> shift));
                }
            }
            c.words[m][n] = total;
        }
    }
}
template void EmulatedTiles::multiply_bytes<uint8_t, int8_t>(int, int, int);
template void EmulatedTiles::multiply_bytes<int8_t, int8_t>(int, int, int);

void EmulatedTiles::pack_words(const float* x, int64_t stride, int64_t rows, int64_t count,
                               uint32_t* words) {
    for (int64_t k = 0; k < kTileRows; ++k) {
        for (int64_t row = 0; row < rows; ++row, ++words) {
            const auto at = [&](int64_t i) {
                return BFloat16(i < count ? x[row * stride + i] : 0.0f);
            };
            const BFloat16 pair[2] = {at(2 * k), at(2 * k + 1)};
            std::memcpy(words, pair, sizeof(*words));
        }
    }
}

void EmulatedTiles::transpose(const float* from, int64_t stride, float (&turned)[16][16]) {
    float rows[16][16];
    for (int64_t i = 0; i < 16; ++i) std::copy_n(from + i * stride, 16, rows[i]);
    for (size_t i = 0; i < 16; ++i) {
        for (size_t j = 0; j < 16; ++j) turned[j][i] = rows[i][j];
    }
}

const nvllm::cpu::Kernels& emulated_amx_kernels() {
    static const nvllm::cpu::Kernels table = table_with_emulated_tiles();
    return table;
}

}  // namespace testing
