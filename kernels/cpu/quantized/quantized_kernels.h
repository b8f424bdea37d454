// Products of rows of x with panels of quantized weights.
//
// Every output has a lane of its own, so nothing is added across lanes: a K-block of k is summed in
// order into one register for each (row, vector of columns), then scaled and added to a total in
// memory; the last K-block's becomes a result. With few rows quantized values are dequantized as
// they are multiplied; with many, those of a K-block are dequantized once into memory that stays in
// the first-level cache. Both give the same factors to the same accumulator of multiply-adds.
//
// An instruction set may multiply 4-bit values as they lie in their words: 8 above what they are,
// and times a power of two that x is divided by beforehand. What the sum has too much, 8 and the
// zero point times the sum of x, is taken off when a K-block has been summed.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cpu/quantized/quantized_parts.h"
#include "kernels/cpu/quantized/quantized_tile.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/probe_kernels.h"
#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cpu {

// Of an instruction set: whether int4() leaves quantized values in their places.
template <class C>
constexpr bool leaves_int4_in_place() {
    return requires { C::int4_factors; };
}

// Weights as float32, one k after the other.
template <class C, ops::WeightFormat code>
struct DequantizedWeights {
    using F = typename C::F;
    using Words = typename C::Words;
    static constexpr bool nibbles =
        code == ops::WeightFormat::int4 || code == ops::WeightFormat::float4;
    static constexpr int per_word = nibbles ? 8 : 4;

    template <int index>
    static F dequantize(Words words) {
        if constexpr (code == ops::WeightFormat::int4) return C::template int4<index>(words);
        if constexpr (code == ops::WeightFormat::int8) return C::template int8<index>(words);
        if constexpr (code == ops::WeightFormat::float4) return C::template float4<index>(words);
        if constexpr (code == ops::WeightFormat::float8) return C::template float8<index>(words);
    }
};

template <class C, ops::WeightFormat code>
class QuantizedKernel {
    using Tile = QuantizedTile<C>;
    using S = typename C::Simd;
    using F = typename C::F;
    using Words = typename C::Words;
    using Codes = DequantizedWeights<C, code>;
    static constexpr int lanes = Tile::lanes;
    static constexpr int vectors = Tile::vectors;
    static constexpr int per_word = Codes::per_word;
    static constexpr bool has_zeros =
        code == ops::WeightFormat::int4 || code == ops::WeightFormat::int8;
    static constexpr bool in_place = code == ops::WeightFormat::int4 && leaves_int4_in_place<C>();
    // With sixteen registers a product takes no operand that it broadcasts itself, and six rows of
    // one panel leave room for its weights alone.
    static constexpr bool has_many_registers = S::lanes == 16;
    static constexpr int max_rows = 6;
    static constexpr int panels_of(int rows) {
        if (has_many_registers) return 4;
        // Few accumulators of sums would wait for themselves.
        if (!in_place) return rows == 1 ? 2 : 1;
        return rows == 1 ? 4 : rows <= 3 ? 2 : 1;
    }
    // From so many rows on dequantizing once pays; the sooner the more it costs.
    static constexpr int64_t rows_to_dequantize_once = [] {
        if (in_place) return 4 * max_rows + 1;
        return (has_many_registers || has_zeros ? 2 : 1) * max_rows + 1;
    }();

  public:
    static void multiply(const QuantizedBlock& block) {
        constexpr bool subtracts = has_zeros && !in_place;
        if (subtracts && block.zero_points != nullptr) {
            multiply_all<subtracts>(block);
        } else {
            multiply_all<false>(block);
        }
    }

  private:
    // `subtracts`: zero points are taken off each weight.
    template <bool subtracts>
    static void multiply_all(const QuantizedBlock& block) {
        const bool dequantizes_once = block.rows >= rows_to_dequantize_once;
        WeightPrefetch next(block, block.groups * (block.rows / max_rows + 1));
        const float* x_sums = block.x_sums;
        for_each_k_block(block, kQuantizedBlockK, [&](const QuantizedKBlock& k_block) {
            if (dequantizes_once) {
                for (int panel = 0; panel < block.panels; ++panel) {
                    dequantize_panel<subtracts>(block, k_block, panel);
                }
            }
            for (int64_t row = 0; row < block.rows;) {
                next.fetch_part();
                row += dequantizes_once
                           ? some_rows<max_rows, DequantizedOnce>(block, k_block, row, x_sums)
                           : some_rows<max_rows, DequantizedPerUse<subtracts>>(block, k_block, row,
                                                                               x_sums);
            }
            if constexpr (in_place) ++x_sums;
        });
    }

    template <int rows, class Source>
    static int some_rows(const QuantizedBlock& block, const QuantizedKBlock& k_block, int64_t row,
                         const float* x_sums) {
        if constexpr (rows > 1) {
            if (block.rows - row < rows) {
                return some_rows < rows == 6 ? 4 : rows - 1, Source > (block, k_block, row, x_sums);
            }
        }
        constexpr int panels = panels_of(rows);
        int panel = 0;
        for (; panel + panels <= block.panels; panel += panels) {
            tile<rows, panels, Source>(block, k_block, row, panel, x_sums);
        }
        for (; panel < block.panels; ++panel) {
            tile<rows, 1, Source>(block, k_block, row, panel, x_sums);
        }
        return rows;
    }

    // What sums of quantized values that were left in place have too much is taken off, in vector
    // `v` of a panel's columns. x_sums: of the K-block in the first of the rows.
    template <int rows>
    static void correct(const QuantizedBlock& block, const QuantizedKBlock& k_block, int panel,
                        int v, const float* x_sums, F (&sums)[rows]) {
        if constexpr (in_place) {
            F above = S::set(8);
            if (block.zero_points != nullptr) {
                const int64_t place = place_of(block, panel, k_block.group) + v * lanes;
                above = S::add(above, C::small(block.zero_points + place));
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                sums[r] = S::fma(above, S::set(-x_sums[r * block.x_k_blocks]), sums[r]);
            }
        }
    }

    // One step of k of a panel, from its words.
    template <bool zeros>
    struct DequantizedPerUse {
        const uint32_t* words;
        F zero[vectors];
        const uint32_t* at = nullptr;

        DequantizedPerUse(const QuantizedBlock& block, const QuantizedKBlock& k_block, int panel)
            : words(words_at<per_word>(block, panel, k_block.first)) {
            if constexpr (zeros) {
                for (int v = 0; v < vectors; ++v) {
                    zero[v] = C::small(block.zero_points + place_of(block, panel, k_block.group) +
                                       v * lanes);
                }
            }
        }
        void go_to(int64_t step) {
            at = words + step * kPanelColumns;
            // Panels follow one another; so what lies ahead is wanted too.
            __builtin_prefetch(at + 512);
        }
        // Quantized values in their places are masked out of memory by several panels side by side,
        // whose sums need the registers: or gcc would keep words in them, and sums in memory.
        void forget_words() {
            if constexpr (in_place) asm("" : "+r"(at));
        }
        template <int index>
        F get(int v) const {
            const F value = Codes::template dequantize<index>(C::load(at + v * lanes));
            if constexpr (zeros) return S::sub(value, zero[v]);
            return value;
        }
    };

    // The same from memory: float32 [K-block][16].
    struct DequantizedOnce {
        const float* values;
        const float* at = nullptr;
        DequantizedOnce(const QuantizedBlock& block, const QuantizedKBlock&, int panel)
            : values(block.dequantized + panel * kQuantizedBlockK * kPanelColumns) {}
        void go_to(int64_t step) { at = values + step * per_word * kPanelColumns; }
        void forget_words() {}
        template <int index>
        F get(int v) const {
            return S::load(at + index * kPanelColumns + v * lanes);
        }
    };

    template <bool zeros>
    static void dequantize_panel(const QuantizedBlock& block, const QuantizedKBlock& k_block,
                                 int panel) {
        DequantizedPerUse<zeros> source(block, k_block, panel);
        float* out = block.dequantized + panel * kQuantizedBlockK * kPanelColumns;
        const int64_t steps = (k_block.end - k_block.first) / per_word;
        for (int64_t step = 0; step < steps; ++step) {
            source.go_to(step);
            for_each_format([&](auto index) {
                for (int v = 0; v < vectors; ++v) {
                    S::store(out + v * lanes, source.template get<index()>(v));
                }
                out += kPanelColumns;
            });
        }
    }

    template <typename Body>
    [[gnu::always_inline]] static void for_each_format(Body body) {
        [&]<int... index>(std::integer_sequence<int, index...>) {
            (body(std::integral_constant<int, index>()), ...);
        }
        (std::make_integer_sequence<int, per_word>());
    }

    // Of neighbouring panels.
    template <class Source, int panels>
    struct Sources {
        Source of[panels];

        Sources(const QuantizedBlock& block, const QuantizedKBlock& k_block, int panel)
            : Sources(block, k_block, panel, std::make_integer_sequence<int, panels>()) {}
        void go_to(int64_t step) {
#pragma GCC unroll 8
            for (Source& source : of) source.go_to(step);
        }
        void forget_words() {
#pragma GCC unroll 8
            for (Source& source : of) source.forget_words();
        }

      private:
        template <int... p>
        Sources(const QuantizedBlock& block, const QuantizedKBlock& k_block, int panel,
                std::integer_sequence<int, p...>)
            : of{Source(block, k_block, panel + p)...} {}
    };

    // Sums stay in registers: all that touches them is inlined before arrays are taken apart.
    template <int rows, int panels, class Source>
    static void tile(const QuantizedBlock& block, const QuantizedKBlock& k_block, int64_t row,
                     int panel, const float* x_sums) {
        F sum[panels * vectors][rows];
#pragma GCC unroll 8
        for (auto& line : sum) {
#pragma GCC unroll 8
            for (F& value : line) value = S::zero();
        }
        if (rows == max_rows && k_block.end == block.in) {
            for (int r = 0; r < rows; ++r) fetch_results(block, row + r, panel, panels);
        }
        const float* x[rows];
        for (int r = 0; r < rows; ++r) {
            x[r] = static_cast<const float*>(block.x) + (row + r) * block.x_stride + k_block.first;
        }
        Sources<Source, panels> sources(block, k_block, panel);
        const int64_t steps = (k_block.end - k_block.first) / per_word;
        for (int64_t step = 0; step < steps; ++step) {
            sources.go_to(step);
            add_quantized<0>(step * per_word, x, sources, sum);
        }
#pragma GCC unroll 8
        for (int i = 0; i < panels * vectors; ++i) {
            correct(block, k_block, panel + i / vectors, i % vectors,
                    x_sums + row * block.x_k_blocks, sum[i]);
            Tile::add_sums(block, k_block, row, panel + i / vectors, i % vectors, sum[i]);
        }
    }

    template <int index, int rows, int panels, class Source>
    [[gnu::always_inline]] static void add_quantized(int64_t k, const float* const* x,
                                                     Sources<Source, panels>& sources,
                                                     F (&sum)[panels * vectors][rows]) {
        if constexpr (panels > 1) sources.forget_words();
        if constexpr (has_many_registers || panels > 1 || rows <= vectors) {
#pragma GCC unroll 8
            for (int i = 0; i < panels * vectors; ++i) {
                const F weight = sources.of[i / vectors].template get<index>(i % vectors);
#pragma GCC unroll 8
                for (int r = 0; r < rows; ++r) {
                    sum[i][r] = S::fma(S::set(x[r][k + index]), weight, sum[i][r]);
                }
            }
        } else {
            static_assert(panels == 1);
            F weight[vectors];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
                weight[v] = sources.of[0].template get<index>(v);
                S::hold_in_register(weight[v]);
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                const F factor = S::set(x[r][k + index]);
#pragma GCC unroll 8
                for (int v = 0; v < vectors; ++v) {
                    sum[v][r] = S::fma(factor, weight[v], sum[v][r]);
                }
            }
        }
        if constexpr (index + 1 < per_word) add_quantized<index + 1>(k, x, sources, sum);
    }
};

template <class C>
void divide_row_for_int4(const QuantizedBlock& block, float* x, float* sums) {
    using S = typename C::Simd;
    for_each_k_block(block, kQuantizedBlockK, [&](const QuantizedKBlock& k_block) {
        auto sum = S::zero();
        for (int64_t k = k_block.first; k < k_block.end; k += S::lanes) {
            sum = S::add(sum, S::load(x + k));
        }
        *sums++ = S::reduce_add(sum);
    });
    C::divide_for_int4(x, block.in);
}

template <class C>
constexpr auto divide_for_int4() -> void (*)(const QuantizedBlock&, float*, float*) {
    if constexpr (leaves_int4_in_place<C>()) return divide_row_for_int4<C>;
    return nullptr;
}

template <class C>
QuantizedKernels quantized_kernels() {
    using Code = ops::WeightFormat;
    return {{QuantizedKernel<C, Code::int4>::multiply, QuantizedKernel<C, Code::int8>::multiply,
             QuantizedKernel<C, Code::float4>::multiply, QuantizedKernel<C, Code::float8>::multiply,
             PartKernel<DequantizedSparse<C, Code::sparse_bfloat16>>::multiply,
             PartKernel<DequantizedSparse<C, Code::sparse_float16>>::multiply,
             PartKernel<DequantizedSparse<C, Code::sparse_float8>>::multiply},
            {PartKernel<Int4Parts<C>>::multiply, PartKernel<Int8Parts<C>>::multiply},
            {arrange_quantized<C, Code::int4>, arrange_quantized<C, Code::int8>},
            {sizeof(typename C::X), sizeof(typename C::X)},
            {},
            int8_loop<C>,
            divide_for_int4<C>(),
            sum_quantized<C>};
}

}  // namespace nvllm::cpu
