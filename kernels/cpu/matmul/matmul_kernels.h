// Matmuls of packed x panels with rows of weights, as dot products along k.
//
// A register tile holds one vector of partial sums for each (row of x, row of weight) pair. Every
// pair has its own accumulator of fused multiply-adds over a K-block of k and its own reduction,
// and the sums of its K-blocks are added in their order, so a result does not depend on what else
// is in the tile.
//
// With few rows of x weights are read straight from where they lie: they come from memory, once. A
// block's rows are then dealt out so that each row of a group follows the one that the group before
// had in its place: a few long streams, which every processor fetches ahead of; rows side by side,
// two to a page, cost one of them (Zen 4) half of the bandwidth. One panel has them asked for twice
// where the processor gains by that; from two panels on, the next block is fetched while this one
// is used again. With many rows of x a block of weights is packed as x is, upcast once instead of
// once for every panel, one K-block of k after the other: then a panel's K-block stays in the
// first-level cache for all groups of the block, the block's in the second-level cache for all
// panels; the next panel is fetched, and in the end what will be packed next. Where registers are
// few matmul_by_columns.h multiplies many rows.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/matmul/matmul_panels.h"
#include "kernels/cpu/matmul/outer_product_matmul.h"
#include "kernels/cpu/simd/kernels.h"

namespace nvllm::cpu {

// Weight rows of a register tile; four sums of a row are reduced together.
constexpr int kTileColumns = 4;

// Each struct of factors says how one step along k is loaded: `parts` vectors of x and of a weight
// row that are multiplied lane by lane and added to the sums one part after the other, `step`
// values of k in all. Where columns lie side by side (matmul_by_columns.h), words that hold a
// lane's values of a step are loaded, exchanged between columns and stored as float32, one value
// `apart` from the other.

// Factors as float32: weights of type W are upcast in registers.
template <class S, typename W>
struct UpcastOperands {
    using Simd = S;
    using Weight = W;
    using Packed = float;
    using Vector = typename S::F;
    static constexpr int parts = 1;
    static constexpr int64_t step = S::lanes;
    static constexpr int rows = S::tile_rows;

    template <int part>
    static Vector load_x(const Packed* p) {
        return S::load(p);
    }
    template <int part>
    static Vector load_weight(const W* p) {
        return S::load(p);
    }
    // The first `count` values of a step, then zeros.
    static void load_tail(const W* p, int64_t count, W* out) {
        for (int64_t i = 0; i < step; ++i) out[i] = i < count ? p[i] : W{};
    }
    static Vector load_words(const W* p) { return S::load(p); }
    static void store_words(float* p, int64_t, Vector words) { S::store(p, words); }
    static void store(Packed* p, Vector x) { S::store(p, x); }
    static Vector multiply_add(Vector x, Vector w, Vector sum) { return S::fma(x, w, sum); }
    // One step of x, rounded to the type X.
    template <typename X>
    static void pack(const float* x, Packed* out) {
        S::store(out, S::round_to(static_cast<const X*>(nullptr), S::load(x)));
    }
};

// The same for bfloat16 weights, which upcast cheapest in pairs: as 32-bit words, the odd one of a
// pair is the word with its lower half cleared, and the even one is the word shifted up. Lane l has
// k = 2 l, then 2 l + 1.
template <class S>
struct DequantizedPairs {
    using Simd = S;
    using Weight = BFloat16;
    using Packed = float;
    using Vector = typename S::F;
    static constexpr int parts = 2;
    static constexpr int64_t step = 2 * S::lanes;
    static constexpr int rows = S::tile_rows;

    template <int part>
    static Vector load_x(const Packed* p) {
        return S::load(p + part * S::lanes);
    }
    template <int part>
    static Vector load_weight(const BFloat16* p) {
        return part == 0 ? S::load_even(p) : S::load_odd(p);
    }
    static void load_tail(const BFloat16* p, int64_t count, BFloat16* out) {
        S::load_pairs(p, count, out);
    }
    static Vector load_words(const BFloat16* p) { return S::load_words(p); }
    static void store_words(float* p, int64_t apart, Vector words) {
        S::store(p, S::even_of(words));
        S::store(p + apart, S::odd_of(words));
    }
    static void store(Packed* p, Vector x) { S::store(p, x); }
    static Vector multiply_add(Vector x, Vector w, Vector sum) { return S::fma(x, w, sum); }
    template <typename X>
    static void pack(const float* x, Packed* out) {
        const X* type = nullptr;
        S::store(out, S::round_to(type, S::load_even(x)));
        S::store(out + S::lanes, S::round_to(type, S::load_odd(x)));
    }
};

// Rows [0, rows) of x into a panel.
template <class Operands, typename X>
void pack_panel(const float* x, int64_t stride, int64_t rows, int64_t in, void* packed) {
    constexpr int64_t step = Operands::step;
    auto* out = static_cast<typename Operands::Packed*>(packed);
    for (int64_t k = 0; k < in; k += step) {
        for (int64_t row = 0; row < rows; ++row, out += step) {
            pack_step<Operands, X>(x + row * stride + k, in - k, out);
        }
    }
}

// What is fetched while a group multiplies: its own rows, `ahead` values before their turn, and,
// for the second-level cache, what lies `distance` values from two of them, perhaps one twice, or
// from all.
struct Fetching {
    int64_t ahead;
    int64_t distance = 0;
    int64_t rows[2] = {};
};

// The last values of a group's rows, where they do not fill a step, and zeros.
template <class Operands>
struct Tails {
    typename Operands::Weight rows[kTileColumns][Operands::step];
};

// Weight rows where they lie. `fetches_all`: what lies `distance` from each of them is fetched.
template <class Operands, bool fetches_all = false>
class RowsInPlace {
  public:
    using Weight = typename Operands::Weight;
    using Packed = typename Operands::Packed;
    static constexpr int columns = kTileColumns;

    // `rows` outlive this. `gap`: how far from the end of a row, in values, the row begins that the
    // next group has in its place.
    RowsInPlace(const Weight* const* rows, int64_t end, int64_t gap, const Fetching& fetching)
        : rows_(rows),
          end_(end),
          gap_(gap),
          next_{rows[fetching.rows[0]] + fetching.distance,
                rows[fetching.rows[1]] + fetching.distance},
          in_row_(end - fetching.ahead),
          ahead_(fetching.ahead),
          distance_(fetching.distance) {}

    void go_to(int64_t k) {
        if (k >= in_row_) ahead_ = end_ - in_row_ + gap_;
#pragma GCC unroll 8
        for (int c = 0; c < columns; ++c) {
            at_[c] = rows_[c] + k;
            __builtin_prefetch(at_[c] + ahead_, 0, 3);
            if constexpr (fetches_all) __builtin_prefetch(at_[c] + distance_, 0, 2);
        }
        if constexpr (fetches_all) return;
        __builtin_prefetch(next_[0] + k, 0, 2);
        __builtin_prefetch(next_[1] + k, 0, 2);
    }
    void go_to_tail(int64_t k, Tails<Operands>& tails) {
        for (int c = 0; c < columns; ++c) {
            Operands::load_tail(rows_[c] + k, end_ - k, tails.rows[c]);
            at_[c] = tails.rows[c];
        }
    }
    template <int part>
    typename Operands::Vector load(int column) const {
        return Operands::template load_weight<part>(at_[column]);
    }

  private:
    const Weight* const* rows_;
    const int64_t end_;
    const int64_t gap_;
    const Weight* const next_[2];
    const int64_t in_row_;  // from here on what lies ahead is no longer in the row
    int64_t ahead_;
    const int64_t distance_;
    const Weight* at_[columns];
};

// What a group of columns fetches while it multiplies, so that it is at hand when its turn comes.
template <class Operands>
struct Upcoming {
    const typename Operands::Packed* x;       // a share of the next panel
    const typename Operands::Weight* weight;  // one row that will be packed next
};

// A group of weight rows packed as a panel of x is: [steps][columns][step]. Its next steps are
// fetched, and what comes after it.
template <class Operands>
class PackedRows {
  public:
    using Packed = typename Operands::Packed;

    // `packed` begins at k = `begin`.
    PackedRows(const Packed* packed, int64_t begin, const Upcoming<Operands>& upcoming)
        : packed_(packed),
          begin_(begin),
          next_x_(reinterpret_cast<const char*>(upcoming.x)),
          next_weight_(upcoming.weight - begin) {}

    void go_to(int64_t k) {
        at_ = packed_ + (k - begin_) * kTileColumns;
#pragma GCC unroll 16
        for (int64_t byte = 0; byte < kStepBytes; byte += kLine) {
            __builtin_prefetch(reinterpret_cast<const char*>(at_) + kStepBytes * 4 + byte, 0, 3);
        }
#pragma GCC unroll 4
        for (int line = 0; line < kLinesOfX; ++line)
            __builtin_prefetch(next_x_ + line * kLine, 0, 2);
        next_x_ += kLinesOfX * kLine;
        __builtin_prefetch(next_weight_ + k, 0, 2);
    }
    void go_to_tail(int64_t k, Tails<Operands>&) { at_ = packed_ + (k - begin_) * kTileColumns; }
    template <int part>
    typename Operands::Vector load(int column) const {
        return Operands::template load_x<part>(at_ + column * Operands::step);
    }

  private:
    static constexpr int64_t kLine = 64;
    static constexpr int64_t kStepBytes =
        kTileColumns * Operands::step * static_cast<int64_t>(sizeof(Packed));
    static constexpr int kLinesOfX = 2;
    const Packed* const packed_;
    const int64_t begin_;
    const char* next_x_;
    const typename Operands::Weight* const next_weight_;
    const Packed* at_ = nullptr;
};

template <class Operands>
struct MatmulTile {
    using S = typename Operands::Simd;
    using F = typename S::F;
    using Four = typename S::Four;
    using Vector = typename Operands::Vector;
    using Packed = typename Operands::Packed;
    static constexpr int64_t step = Operands::step;
    static constexpr int max_rows = Operands::rows;
    static constexpr int columns = kTileColumns;

    // The products of one K-block [begin, end) of k, which is full or ends with the rows, summed up
    // for each row. x: one panel, from k = begin.
    template <int rows, class Weights>
    [[gnu::always_inline]] static void multiply(const Packed* x, int64_t begin, int64_t end,
                                                Weights weights, Four* sums) {
        Tails<Operands> tails;
        F total[columns * rows];
#pragma GCC unroll 32
        for (int i = 0; i < columns * rows; ++i) total[i] = S::zero();
        int64_t k = begin;
        for (; k + step <= end; k += step, x += rows * step) {
            weights.go_to(k);
            multiply_step<rows>(x, weights, total);
        }
        if (k < end) {
            weights.go_to_tail(k, tails);
            multiply_step<rows>(x, weights, total);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            sums[r] =
                S::reduce_add4(total[r], total[rows + r], total[2 * rows + r], total[3 * rows + r]);
        }
    }

  private:
    // The fewer of both factors' vectors stay in registers beside the sums, and those of the other
    // pass by.
    template <int rows, int part = 0, class Weights>
    [[gnu::always_inline]] static void multiply_step(const Packed* x, const Weights& weights,
                                                     F* total) {
        if constexpr (rows > columns) {
            Vector weight[columns];
#pragma GCC unroll 8
            for (int c = 0; c < columns; ++c) {
                weight[c] = weights.template load<part>(c);
                S::hold_in_register(weight[c]);
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                const Vector factor = Operands::template load_x<part>(x + r * step);
#pragma GCC unroll 8
                for (int c = 0; c < columns; ++c)
                    add_product(factor, weight[c], total[c * rows + r]);
            }
        } else {
            Vector factor[rows];
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                factor[r] = Operands::template load_x<part>(x + r * step);
                if constexpr (rows > 1) S::hold_in_register(factor[r]);
            }
#pragma GCC unroll 8
            for (int c = 0; c < columns; ++c) {
                const Vector weight = weights.template load<part>(c);
#pragma GCC unroll 8
                for (int r = 0; r < rows; ++r) add_product(factor[r], weight, total[c * rows + r]);
            }
        }
        if constexpr (part + 1 < Operands::parts) multiply_step<rows, part + 1>(x, weights, total);
    }
    [[gnu::always_inline]] static void add_product(Vector x, Vector weight, F& sum) {
        sum = Operands::multiply_add(x, weight, sum);
    }
};

// A block of the product: all panels of x by consecutive weight rows.
template <class Operands>
struct MatmulKernel {
    using Tile = MatmulTile<Operands>;
    using Weight = typename Operands::Weight;
    using Packed = typename Operands::Packed;
    using Four = typename Tile::Four;
    static constexpr int columns = Tile::columns;
    static constexpr int max_rows = Tile::max_rows;
    static constexpr int64_t step = Tile::step;
    static_assert(kBlockK % step == 0);
    // Beyond that many, upcasting the weights anew for each costs more than packing them once,
    // which does not go on while they come from memory. Few rows share what is upcast for them.
    static constexpr int64_t kFewPanels = max_rows >= 6 ? 10 : 4;
    static constexpr int64_t max_in_place_tokens = kFewPanels * max_rows;

    static void multiply_block(const MatmulBlock& block) {
        if constexpr (Operands::Simd::multiplies_by_columns) {
            multiply_in_place(block);
        } else if (block.tokens <= max_in_place_tokens) {
            multiply_in_place(block);
        } else {
            multiply_packed(block);
        }
    }

  private:
    using Panels = MatmulPanels<Operands, max_rows>;
    using Panel = typename Panels::Panel;

    // Columns of a block that are multiplied together, `spacing` apart; the last groups may be
    // short.
    struct Group {
        int64_t column;
        int64_t spacing;
        int64_t count;
    };
    static Group group_at(const MatmulBlock& block, int64_t column, int64_t spacing) {
        const int64_t left = (block.columns - column + spacing - 1) / spacing;
        return {column, spacing, left < columns ? left : columns};
    }
    static int64_t num_groups(const MatmulBlock& block) {
        return (block.columns + columns - 1) / columns;
    }

    // A short group repeats its last row: the sums are the same code's, the surplus is dropped.
    static void find_rows(const MatmulBlock& block, const Group& group, const Weight** rows) {
        const Weight* first = static_cast<const Weight*>(block.weight) + group.column * block.in;
        for (int c = 0; c < columns; ++c) {
            const int64_t place = c < group.count ? c : group.count - 1;
            rows[c] = first + place * group.spacing * block.in;
        }
    }

    static void multiply_in_place(const MatmulBlock& block) {
        const Panels panels(block);
        if (panels.count() == 1 && block.bytes_early > 0) return multiply_streams(block);
        for (int64_t index = 0; index < panels.count(); ++index) {
            const Panel panel = panels.at(index);
            const Fetching fetching = fetching_of(block, index, panels.count());
            Panels::with_rows(
                panel, [&](auto rows) { multiply_panel<rows(), false>(block, panel, fetching); });
        }
    }
    // One panel alone waits for memory, which gives more when it is asked twice.
    static void multiply_streams(const MatmulBlock& block) {
        const Panel panel = Panels(block).at(0);
        const Fetching fetching = {values_ahead(block), values_of(block.bytes_early)};
        Panels::with_rows(panel,
                          [&](auto rows) { multiply_panel<rows(), true>(block, panel, fetching); });
    }

    // Panels share the rows of each group, so that memory is busy all the time; one panel alone
    // reads no faster than memory gives.
    static Fetching fetching_of(const MatmulBlock& block, int64_t index, int64_t panels) {
        const int64_t first = panels < columns ? columns * index / panels : index;
        const int64_t ahead = values_ahead(block);
        if (panels == 1 || first >= columns || block.next_weight == nullptr) return {ahead};
        const int64_t end = panels < columns ? columns * (index + 1) / panels : index + 1;
        return {ahead,
                static_cast<const Weight*>(block.next_weight) -
                    static_cast<const Weight*>(block.weight),
                {first, end - 1}};
    }
    static int64_t values_ahead(const MatmulBlock& block) { return values_of(block.bytes_ahead); }
    static int64_t values_of(int64_t bytes) { return bytes / static_cast<int64_t>(sizeof(Weight)); }

    template <int rows, bool fetches_all>
    static void multiply_panel(const MatmulBlock& block, const Panel& panel,
                               const Fetching& fetching) {
        const int64_t groups = num_groups(block);
        for (int64_t i = 0; i < groups; ++i) {
            const Group group = group_at(block, i, groups);
            const Weight* weight_rows[columns];
            find_rows(block, group, weight_rows);
            float* const y = fetch_output<rows>(block, panel, group.column);
            for (int64_t k = 0; k < block.in; k += kBlockK) {
                Four sums[rows];
                multiply_rows<rows, fetches_all>(panel.x + rows * k, k,
                                                 Panels::k_block_end(block, k), weight_rows,
                                                 block.in, fetching, sums);
                store_group<rows>(block, group, k, sums, y);
            }
        }
    }

    // A panel by all groups, then the next, which is fetched meanwhile.
    static void multiply_packed(const MatmulBlock& block) {
        const Panels panels(block);
        const int64_t groups = num_groups(block);
        for (int64_t k = 0; k < block.in; k += kBlockK) {
            pack_weights(block, k, static_cast<Packed*>(block.packed_weight));
            for (int64_t index = 0; index < panels.count(); ++index) {
                const Panel panel = panels.at(index);
                const Panel next = panels.at(index + 1 < panels.count() ? index + 1 : 0);
                // A row for each group of the last panels; before that it would not stay in cache.
                const int64_t next_row = block.columns - (panels.count() - index) * groups;
                Panels::with_rows(panel, [&](auto rows) {
                    multiply_packed_panel<rows()>(block, panel, next, next_row, k);
                });
            }
        }
    }

    template <int rows>
    static void multiply_packed_panel(const MatmulBlock& block, const Panel& panel,
                                      const Panel& next, int64_t next_row, int64_t k) {
        const int64_t length = Panels::packed_length(block, k);
        const auto* packed = static_cast<const Packed*>(block.packed_weight);
        const int64_t share = next.rows * length * columns / block.columns;
        Upcoming<Operands> upcoming = {next.x + next.rows * k, nullptr};
        for (int64_t column = 0; column < block.columns; column += columns) {
            upcoming.weight = row_to_pack(block, next_row++, k);
            float* const y = fetch_output<rows>(block, panel, column);
            Four sums[rows];
            multiply_packed_group<rows>(panel.x + rows * k, k, Panels::k_block_end(block, k),
                                        packed, upcoming, sums);
            store_group<rows>(block, group_at(block, column, 1), k, sums, y);
            packed += columns * length;
            upcoming.x += share;
        }
    }

    // Where weight row `row` goes on after this K-block, or that row of the block that follows; for
    // a row that is none, something that is at hand already.
    static const Weight* row_to_pack(const MatmulBlock& block, int64_t row, int64_t k) {
        const bool is_last = k + kBlockK >= block.in;
        const void* first = is_last ? block.next_weight : block.weight;
        if (row < 0 || first == nullptr) return static_cast<const Weight*>(block.packed_weight);
        return static_cast<const Weight*>(first) + row * block.in + (is_last ? 0 : k + kBlockK);
    }

    // All rows from k = begin on, up to the end of the K-block. A function of its own: among others
    // its loop lacks registers.
    [[gnu::noinline]] static void pack_weights(const MatmulBlock& block, int64_t begin,
                                               Packed* out) {
        const int64_t end = Panels::k_block_end(block, begin);
        for (int64_t column = 0; column < block.columns; column += columns) {
            const Weight* rows[columns];
            find_rows(block, group_at(block, column, 1), rows);
            RowsInPlace<Operands> weights(rows, block.in, (columns - 1) * block.in,
                                          {values_ahead(block)});
            int64_t k = begin;
            for (; k + step <= end; k += step) {
                weights.go_to(k);
                out = pack_step(weights, out);
            }
            if (k == end) continue;
            Tails<Operands> tails;
            weights.go_to_tail(k, tails);
            out = pack_step(weights, out);
        }
    }

    template <int part = 0>
    static Packed* pack_step(const RowsInPlace<Operands>& weights, Packed* out) {
#pragma GCC unroll 8
        for (int c = 0; c < columns; ++c) {
            Operands::store(out + c * step + part * (step / Operands::parts),
                            weights.template load<part>(c));
        }
        if constexpr (part + 1 < Operands::parts) {
            return pack_step<part + 1>(weights, out);
        } else {
            return out + columns * step;
        }
    }

    // Widening in pairs beside the sums of a full panel takes every register of those that have
    // few.
    template <int rows, bool fetches_all>
    [[gnu::always_inline]] static void multiply_rows(const Packed* x, int64_t k, int64_t end,
                                                     const Weight* const* weight_rows, int64_t in,
                                                     const Fetching& fetching, Four* sums) {
        if constexpr (rows == max_rows && max_rows < columns && Operands::parts > 1) {
            multiply_full_panel<fetches_all>(x, k, end, weight_rows, in, fetching, sums);
        } else {
            Tile::template multiply<rows>(
                x, k, end, RowsInPlace<Operands, fetches_all>(weight_rows, in, 0, fetching), sums);
        }
    }

    // These two are functions of their own, or the compiler runs out of registers.
    template <bool fetches_all>
    [[gnu::noinline]] static void multiply_full_panel(const Packed* x, int64_t k, int64_t end,
                                                      const Weight* const* weight_rows, int64_t in,
                                                      const Fetching& fetching, Four* sums) {
        Tile::template multiply<max_rows>(
            x, k, end, RowsInPlace<Operands, fetches_all>(weight_rows, in, 0, fetching), sums);
    }
    template <int rows>
    [[gnu::noinline]] static void multiply_packed_group(const Packed* x, int64_t k, int64_t end,
                                                        const Packed* packed,
                                                        const Upcoming<Operands>& upcoming,
                                                        Four* sums) {
        Tile::template multiply<rows>(x, k, end, PackedRows<Operands>(packed, k, upcoming), sums);
    }

    // What a group of columns will add its sums to.
    template <int rows>
    static float* fetch_output(const MatmulBlock& block, const Panel& panel, int64_t column) {
        float* const y = block.y + panel.token * block.y_stride + column;
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) __builtin_prefetch(y + r * block.y_stride, 1, 3);
        return y;
    }

    // Sums of the K-block at k. y: the group's first column.
    template <int rows>
    static void store_group(const MatmulBlock& block, const Group& group, int64_t k,
                            const Four* sums, float* y) {
        const bool adds = block.accumulate || k > 0;
        const bool ends = Panels::k_block_end(block, k) == block.in;
        const float* bias = block.bias == nullptr || !ends ? nullptr : block.bias + group.column;
        if (group.spacing == 1 && group.count == columns) {
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) store(sums[r], bias, adds, y + r * block.y_stride);
        } else {
            for (int r = 0; r < rows; ++r) {
                store_apart(sums[r], group, bias, adds, y + r * block.y_stride);
            }
        }
    }

    [[gnu::always_inline]] static void store(Four sums, const float* bias, bool adds, float* y) {
        if (adds) sums = load_four(y) + sums;
        if (bias != nullptr) sums = sums + load_four(bias);
        std::memcpy(y, &sums, sizeof(Four));
    }
    [[gnu::always_inline]] static Four load_four(const float* from) {
        Four values;
        std::memcpy(&values, from, sizeof(Four));
        return values;
    }

    [[gnu::always_inline]] static void store_apart(Four sums, const Group& group, const float* bias,
                                                   bool adds, float* y) {
        float values[columns];
        std::memcpy(values, &sums, sizeof(Four));
        for (int64_t c = 0; c < group.count; ++c) {
            const int64_t place = c * group.spacing;
            float sum = values[c];
            if (adds) sum = y[place] + sum;
            if (bias != nullptr) sum += bias[place];
            y[place] = sum;
        }
    }
};

// The kernels for x rounded to X by weights of Factors::Weight.
template <class Operands, typename X>
MatmulKernels matmul_kernels() {
    using Kernel = MatmulKernel<Operands>;
    MatmulKernels kernels = {Operands::rows,
                             kTileColumns,
                             Operands::step,
                             sizeof(typename Operands::Packed),
                             Kernel::max_in_place_tokens,
                             kAnyNumber,
                             pack_panel<Operands, X>,
                             Kernel::multiply_block};
    if constexpr (Operands::Simd::multiplies_by_columns) {
        static constexpr MatmulKernels by_columns = matmul_kernels_by_columns<Operands, X>();
        kernels.for_more_rows = &by_columns;
    }
    return kernels;
}

}  // namespace nvllm::cpu
