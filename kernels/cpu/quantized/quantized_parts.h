// Products of x with panels of weights that are multiplied several of a column at once: integers,
// pairs of bfloat16, and the two that sparse matrices keep of four.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/cpu/quantized/quantized_tile.h"
#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cpu {

// Sums that are float32 like their terms.
template <class C>
struct FloatSums : C {
    using Sum = typename C::F;
    static Sum no_sums() { return C::Simd::zero(); }
    static typename C::F to_float(Sum sum) { return sum; }
};

// K-blocks that end where groups do.
constexpr int64_t kWholeGroups = std::numeric_limits<int64_t>::max() / 2;

// Of an instruction set that sums few products in 16 bits: steps whose sums are exact so, and
// only then added to those of 32 bits. None: products are added to these at once.
template <class C>
constexpr int short_steps() {
    if constexpr (requires { C::short_steps; }) return C::short_steps;
    return 0;
}

// Spreads a panel's words of `count` values of k: each row of sixteen becomes P::parts rows, of
// which change(weights) are stored.
template <class P, typename Change>
void spread_words(const uint32_t* from, int64_t count, uint32_t* to, Change change) {
    static_assert(P::words == 1);
    constexpr int lanes = P::Simd::lanes;
    constexpr int64_t row = P::parts * kPanelColumns;
    for (int64_t k = 0; k < count; k += P::depth, from += kPanelColumns, to += row) {
        [&]<int... part>(std::integer_sequence<int, part...>) {
            (..., [&] {
                for (int v = 0; v < kPanelColumns / lanes; ++v) {
                    const auto stored = change(P::template weights<part>(from, v));
                    std::memcpy(to + part * kPanelColumns + v * lanes, &stored, sizeof(stored));
                }
            }());
        }
        (std::make_integer_sequence<int, P::parts>());
    }
}

// Words of eight quantized values, in parts as C says; so are those of four below.
template <class C>
struct Int4Parts : C {
    using Weights = typename C::Words;
    static constexpr int depth = 8;  // values of k in a row of words, or in several
    static constexpr int words = 1;  // of a column for so many
    static constexpr int parts = C::int4_parts;
    static constexpr int64_t longest_k_block = kWholeGroups;
    // Whether parts of words are spread once for many rows. Pairs of bfloat16 of a group would
    // leave no room in the first-level cache, and their products leave time to make them anew.
    static constexpr bool spreads = std::is_integral_v<typename C::X>;

    // Of vector `v` of a panel's columns.
    template <int part>
    static Weights weights(const uint32_t* at, int v) {
        return C::template int4_weights<part>(C::load(at + v * C::Simd::lanes));
    }
    static void add(Weights weights, const typename C::X* x, typename C::Sum& sum) {
        C::add_int4(weights, x, sum);
    }
    // What the quantized values' shifts into unsigned ranges add to a sum is taken off first: sums
    // of a vector of columns, as a function of the row.
    static auto first_sums(const QuantizedBlock& block, const QuantizedKBlock& k_block, int, int) {
        const int32_t* const corrections = block.x_corrections + k_block.group;
        return [corrections, groups = block.groups](int64_t row) {
            if constexpr (C::int4_is_shifted) {
                return C::set_sums(corrections[row * groups]);
            } else {
                return C::no_sums();
            }
        };
    }
};

template <class C>
struct Int8Parts : C {
    using Weights = typename C::Words;
    static constexpr int depth = 4;
    static constexpr int words = 1;
    static constexpr int parts = C::int8_parts;
    static constexpr int64_t longest_k_block = kWholeGroups;
    static constexpr bool spreads = parts > 1;  // into 16 bits; bytes are multiplied as they lie

    template <int part>
    static Weights weights(const uint32_t* at, int v) {
        return C::template int8_weights<part>(C::load(at + v * C::Simd::lanes));
    }
    static void add(Weights weights, const typename C::X* x, typename C::Sum& sum) {
        C::add_int8(weights, x, sum);
    }
    static auto first_sums(const QuantizedBlock& block, const QuantizedKBlock& k_block, int panel,
                           int v) {
        typename C::Sum sums = C::no_sums();
        if constexpr (C::x_is_shifted) {
            sums = C::load_sums(block.corrections + place_of(block, panel, k_block.group) +
                                v * C::Simd::lanes);
        }
        return [sums](int64_t) { return sums; };
    }
};

// What all sparse matrices have in common; a part is what is kept of four values of k, multiplied
// by those of x that lie in its places.
template <class C, ops::WeightFormat code>
struct SparseParts : FloatSums<C> {
    static constexpr int depth = kSparseDepth;
    static constexpr int words = sparse_words(code);
    static constexpr int parts = kSparseDepth / 4;
    static constexpr int64_t longest_k_block = kBlockK;
    static constexpr bool spreads = false;

    static auto first_sums(const QuantizedBlock&, const QuantizedKBlock&, int, int) {
        return [](int64_t) { return FloatSums<C>::no_sums(); };
    }
};

// Weights and x as float32.
template <class C, ops::WeightFormat code>
struct DequantizedSparse : SparseParts<C, code> {
    using S = typename C::Simd;
    using F = typename C::F;
    using Words = typename C::Words;
    using X = float;
    struct Weights {
        F first, second;
        Words first_place, second_place;
    };

    template <int part>
    static Weights weights(const uint32_t* at, int v) {
        const Words places = C::load(at + v * S::lanes);
        Weights kept;
        kept.first_place = C::template shifted_right<4 * part>(places);
        kept.second_place = C::template shifted_right<4 * part + 2>(places);
        if constexpr (code == ops::WeightFormat::sparse_float8) {
            const Words words = C::load(at + (1 + part / 2) * kPanelColumns + v * S::lanes);
            kept.first = C::template float8<part % 2>(words);
            kept.second = C::template float8<part % 2 + 2>(words);
        } else if constexpr (code == ops::WeightFormat::sparse_bfloat16) {
            const auto* pairs =
                reinterpret_cast<const BFloat16*>(at + (1 + part) * kPanelColumns + v * S::lanes);
            kept.first = S::load_even(pairs);
            kept.second = S::load_odd(pairs);
        } else {
            const auto* values =
                reinterpret_cast<const Float16*>(at + (1 + part) * kPanelColumns) + v * S::lanes;
            kept.first = S::load(values);
            kept.second = S::load(values + kPanelColumns);
        }
        return kept;
    }
    static void add(const Weights& kept, const X* x, F& sum) {
        sum = S::fma(C::choose(x, kept.first_place), kept.first, sum);
        sum = S::fma(C::choose(x, kept.second_place), kept.second, sum);
    }
};

// P: what parts are and how they are multiplied, as above. Sums of integers are exact, so that
// their order does not matter; others are of one accumulator, k rising.
template <class P>
class PartKernel {
    using Tile = QuantizedTile<P>;
    using S = typename P::Simd;
    using F = typename P::F;
    using Sum = typename P::Sum;
    using X = typename P::X;
    static constexpr int vectors = Tile::vectors;
    static constexpr int64_t row_bytes = kPanelColumns * 4;  // of words
    static constexpr int max_rows = S::lanes == 16 ? 6 : 4;
    static constexpr int max_panels = S::lanes == 16 ? 4 : 1;
    // Whose totals stay in the first-level cache from one K-block to the next, beside its quantized
    // values.
    static constexpr int64_t kRowsAtOnce = 8 * max_rows;
    // From so many rows on it pays to spread words once for all of them. Fewer wait for quantized
    // values to come from memory, and products must not wait until all have come.
    static constexpr int64_t rows_to_spread_once = kRowsAtOnce + 1;
    // Whether totals of many rows stay in registers, beside the sums of a group of half as many
    // panels: groups are short, and to store a tile's totals after each takes the time of some of
    // its products.
    static constexpr bool keeps_totals = S::lanes == 16 && std::is_integral_v<X>;
    static constexpr int panels_with_totals = max_panels / 2;

    // More rows of sparse weights wait for multipliers, not for memory; to ask for their many words
    // twice would cost 7 % (docs/notes/cpu.md).
    static constexpr int64_t max_rows_fetched_early = P::words > 1
                                                          ? 8
                                                          : std::numeric_limits<int64_t>::max();

    // Where a K-block's weights come from: words as they are packed. `early`: they are asked for
    // twice.
    template <bool early>
    struct PackedWords {
        static constexpr int words = P::words;
        // From where a panel's words are read to where they are asked for, and, if early, to where
        // they have been before. The more panels are read side by side the nearer.
        static constexpr int64_t kAheadBytes = early ? 512 : 256;
        static constexpr int64_t kEarlyBytes = max_panels == 1 ? 4096 : 1536;
        const std::byte* codes;
        int64_t panel_bytes;

        PackedWords(const QuantizedBlock& block, const QuantizedKBlock& k_block)
            : codes(block.codes + k_block.first / P::depth * (words * row_bytes)),
              panel_bytes(block.panel_bytes) {}
        template <int part>
        static auto weights(const uint32_t* at, int v) {
            return P::template weights<part>(at, v);
        }
        template <int panels>
        [[gnu::always_inline]] void fetch_ahead(const std::byte* now) const {
            fetch<panels, 3>(now + kAheadBytes);
            if constexpr (early) fetch<panels, 2>(now + kEarlyBytes);
        }

      private:
        // A step's words of some panels, into the first-level cache (locality 3) or the second (2).
        template <int panels, int locality>
        [[gnu::always_inline]] void fetch(const std::byte* at) const {
#pragma GCC unroll 4
            for (int p = 0; p < panels; ++p) {
#pragma GCC unroll 9
                for (int w = 0; w < words; ++w) {
                    __builtin_prefetch(at + p * panel_bytes + w * row_bytes, 0, locality);
                }
            }
        }
    };

    // Words that were spread for all rows and all of k: no shifts and masks for every few rows.
    struct SpreadWords {
        static constexpr int words = P::parts;
        const std::byte* codes;
        int64_t panel_bytes;

        SpreadWords(const QuantizedBlock& block, const QuantizedKBlock& k_block)
            : codes(reinterpret_cast<const std::byte*>(block.dequantized) +
                    k_block.first / P::depth * (words * row_bytes)),
              panel_bytes(block.in / P::depth * (words * row_bytes)) {}
        template <int part>
        static auto weights(const uint32_t* at, int v) {
            return P::load(at + part * kPanelColumns + v * S::lanes);
        }
        template <int panels>
        void fetch_ahead(const std::byte*) const {}  // they are near
        static void spread(const QuantizedBlock& block) {
            auto* to = reinterpret_cast<uint32_t*>(block.dequantized);
            for (int panel = 0; panel < block.panels; ++panel) {
                spread_words<P>(words_at<P::depth>(block, panel, 0), block.in, to,
                                [](auto weights) { return weights; });
                to += block.in / P::depth * (words * kPanelColumns);
            }
        }
    };

  public:
    static void multiply(const QuantizedBlock& block) {
        if constexpr (P::spreads) {
            if (block.rows >= rows_to_spread_once) {
                if constexpr (keeps_totals) {
                    return multiply_many_rows(block);
                } else {
                    SpreadWords::spread(block);
                    return multiply<SpreadWords>(block);
                }
            }
        }
        if (block.fetches_early && block.rows <= max_rows_fetched_early) {
            return multiply<PackedWords<true>>(block);
        }
        multiply<PackedWords<false>>(block);
    }

  private:
    template <class Source>
    static void multiply(const QuantizedBlock& block) {
        WeightPrefetch next(block, block.groups * (block.rows / max_rows + 1));
        for (int64_t first = 0; first < block.rows; first += kRowsAtOnce) {
            const int64_t end = least(first + kRowsAtOnce, block.rows);
            for_each_k_block(block, P::longest_k_block, [&](const QuantizedKBlock& k_block) {
                for (int64_t row = first; row < end;) {
                    next.fetch_part();
                    row += some_rows<max_rows, Source>(block, k_block, row, end);
                }
            });
        }
    }

    // The same by spread words, group after group for few columns and rows, as keeps_totals has it.
    static void multiply_many_rows(const QuantizedBlock& block) {
        WeightPrefetch next(block,
                            (block.panels / panels_with_totals + 1) * (block.rows / max_rows + 1));
        for (int panel = 0; panel < block.panels;) {
            if (block.panels - panel >= panels_with_totals) {
                multiply_panels<panels_with_totals>(block, panel, next);
                panel += panels_with_totals;
            } else {
                multiply_panels<1>(block, panel++, next);
            }
        }
    }
    template <int panels>
    static void multiply_panels(const QuantizedBlock& block, int first, WeightPrefetch& next) {
        const QuantizedBlock part = part_of(block, first, panels);
        SpreadWords::spread(part);
        for (int64_t row = 0; row < part.rows;) {
            next.fetch_part();
            row += rows_of_all_groups<max_rows, panels>(part, row);
        }
    }

    template <int rows, int panels>
    static int rows_of_all_groups(const QuantizedBlock& block, int64_t row) {
        if constexpr (rows > 1) {
            if (block.rows - row < rows) {
                return rows_of_all_groups < rows == 6 ? 4 : rows - 1, panels > (block, row);
            }
        }
        tile_of_all_groups<rows, panels>(block, row);
        return rows;
    }

    // A function of its own, or gcc would have too few registers for what surrounds it as well.
    template <int rows, int panels>
    [[gnu::noinline]] static void tile_of_all_groups(const QuantizedBlock& block, int64_t row) {
        constexpr int columns = panels * vectors;
        for (int r = 0; r < rows; ++r) fetch_results(block, row + r, 0, panels);
        F total[columns][rows];
#pragma GCC unroll 8
        for (auto& column : total) {
#pragma GCC unroll 8
            for (F& value : column) value = S::zero();
        }
        for (int64_t group = 0; group < block.groups; ++group) {
            // Or gcc would keep in vector registers what it knows of the block, and sums in memory.
            asm volatile("" : "+r"(row), "+r"(group) : : "memory");
            const int64_t first = group * block.group_size;
            const QuantizedKBlock k_block{first, least(first + block.group_size, block.in), group};
            Sum sum[columns][rows];
            sum_k_block<SpreadWords>(block, k_block, row, 0, sum);
#pragma GCC unroll 8
            for (int i = 0; i < columns; ++i) {
                const F scales = Tile::load_scales(block, i / vectors, group, i % vectors);
#pragma GCC unroll 8
                for (int r = 0; r < rows; ++r) {
                    total[i][r] = S::fma(P::to_float(sum[i][r]), scales, total[i][r]);
                }
            }
        }
        asm volatile("" : "+r"(row) : : "memory");
#pragma GCC unroll 8
        for (int i = 0; i < columns; ++i) {
            Tile::write_results(block, row, i / vectors, i % vectors, total[i]);
        }
    }

    template <int rows, class Source>
    static int some_rows(const QuantizedBlock& block, const QuantizedKBlock& k_block, int64_t row,
                         int64_t end) {
        if constexpr (rows > 1) {
            if (end - row < rows) {
                return some_rows < rows == 6 ? 4 : rows - 1, Source > (block, k_block, row, end);
            }
        }
        int panel = 0;
        for (; panel + max_panels <= block.panels; panel += max_panels) {
            tile<rows, max_panels, Source>(block, k_block, row, panel);
        }
        for (; panel < block.panels; ++panel) tile<rows, 1, Source>(block, k_block, row, panel);
        return rows;
    }

    template <int rows, int panels, class Source>
    static void tile(const QuantizedBlock& block, const QuantizedKBlock& k_block, int64_t row,
                     int panel) {
        constexpr int columns = panels * vectors;
        if (rows == max_rows && k_block.end == block.in) {
            for (int r = 0; r < rows; ++r) fetch_results(block, row + r, panel, panels);
        }
        Sum sum[columns][rows];
        sum_k_block<Source>(block, k_block, row, panel, sum);
#pragma GCC unroll 8
        for (int i = 0; i < columns; ++i) {
            F values[rows];
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) values[r] = P::to_float(sum[i][r]);
            Tile::add_sums(block, k_block, row, panel + i / vectors, i % vectors, values);
        }
    }

    // Sums stay in registers: all that touches them is inlined before arrays are taken apart.
    template <class Source, int columns, int rows>
    [[gnu::always_inline]] static void sum_k_block(const QuantizedBlock& block,
                                                   const QuantizedKBlock& k_block, int64_t row,
                                                   int panel, Sum (&sum)[columns][rows]) {
        constexpr int panels = columns / vectors;
        const X* x[rows];
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            x[r] = static_cast<const X*>(block.x) + (row + r) * block.x_stride + k_block.first;
#pragma GCC unroll 8
            for (int i = 0; i < columns; ++i) {
                sum[i][r] =
                    P::first_sums(block, k_block, panel + i / vectors, i % vectors)(row + r);
            }
        }
        const Source source(block, k_block);
        const std::byte* const codes = source.codes + panel * source.panel_bytes;
        const int64_t steps = (k_block.end - k_block.first) / P::depth;
        const auto add_steps = [&](int64_t step, int64_t end, Sum(&to)[columns][rows])
            __attribute__((always_inline)) {
            for (; step < end; ++step) {
                const std::byte* const now = codes + step * (Source::words * row_bytes);
                source.template fetch_ahead<panels>(now);
                add_parts<0, Source, rows, columns>(now, source.panel_bytes, x, step * P::depth,
                                                    to);
            }
        };
        if constexpr (short_steps<P>() == 0) {
            add_steps(0, steps, sum);
        } else {
            const auto add_few_steps = [&](int64_t step, auto count)
                __attribute__((always_inline)) {
                Sum few[columns][rows];
#pragma GCC unroll 8
                for (auto& column : few) {
#pragma GCC unroll 8
                    for (Sum& value : column) value = P::no_sums();
                }
                add_steps(step, step + count(), few);
#pragma GCC unroll 8
                for (int i = 0; i < columns; ++i) {
#pragma GCC unroll 8
                    for (int r = 0; r < rows; ++r) P::add_short(few[i][r], sum[i][r]);
                }
            };
            using Few = std::integral_constant<int, short_steps<P>()>;
            int64_t step = 0;
            for (; step + Few() <= steps; step += Few()) add_few_steps(step, Few());
            for (; step < steps; ++step) add_few_steps(step, std::integral_constant<int, 1>());
        }
    }

    // Part after part, so that those of x are loaded once for all columns.
    template <int part, class Source, int rows, int columns>
    [[gnu::always_inline]] static void add_parts(const std::byte* codes, int64_t panel_bytes,
                                                 const X* const* x, int64_t k,
                                                 Sum (&sum)[columns][rows]) {
#pragma GCC unroll 8
        for (int i = 0; i < columns; ++i) {
            const auto* at = reinterpret_cast<const uint32_t*>(codes + i / vectors * panel_bytes);
            const auto weights = Source::template weights<part>(at, i % vectors);
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                P::add(weights, x[r] + k + part * (P::depth / P::parts), sum[i][r]);
            }
        }
        if constexpr (part + 1 < P::parts) {
            add_parts<part + 1, Source, rows, columns>(codes, panel_bytes, x, k, sum);
        }
    }
};

// A row of quantized values as the integer kernels read it; count is a multiple of 8.
template <class C, ops::WeightFormat code>
void arrange_quantized(const int8_t* codes, int64_t count, void* arranged) {
    using X = typename C::X;
    auto* out = static_cast<X*>(arranged);
    constexpr bool is_int4 = code == ops::WeightFormat::int4;
    constexpr int shift = !is_int4 && C::x_is_shifted ? 128 : 0;
    // Of each eight quantized values.
    constexpr auto place = [](int i) {
        return is_int4 ? C::int4_order[i] : i / 4 * 4 + C::int8_order[i % 4];
    };
    int64_t k = 0;
    if constexpr (sizeof(X) == 1) {
        using Bytes = int8_t __attribute__((vector_size(16)));
        [&]<int... i>(std::integer_sequence<int, i...>) {
            for (; k + 16 <= count; k += 16) {
                Bytes some;
                std::memcpy(&some, codes + k, sizeof(some));
                some = __builtin_shufflevector(some, some, (i / 8 * 8 + place(i % 8))...);
                some ^= static_cast<int8_t>(shift);  // adds 128 to bytes
                std::memcpy(out + k, &some, sizeof(some));
            }
        }
        (std::make_integer_sequence<int, 16>());
    }
    for (; k < count; k += 8) {
        for (int i = 0; i < 8; ++i) out[k + i] = static_cast<X>(codes[k + place(i)] + shift);
    }
}

// One for each instruction set, which the compiler takes it to.
template <class C>
int32_t sum_quantized(const int8_t* codes, int64_t count) {
    int32_t sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += codes[k];
    return sum;
}

}  // namespace nvllm::cpu
