// The table of vector kernels that each instruction set fills in.
//
// Kernels work on plain pointers to one row, one block or one tile; shapes are checked, and work is
// spread over threads, by the files of kernels/ops and kernels/cpu that call them. Files compiled
// for an instruction set hold only templates over that set's vector type (cpu/simd_*.h), so that no
// inline function of theirs can be linked into code that runs elsewhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/types.h"

namespace nvllm::cpu {

// Element types that weights may have; indexes the arrays below.
enum class FloatType : uint8_t { f32, bf16, f16 };
constexpr size_t kNumFloatTypes = 3;

// Element types of key-value storage; the first as above.
enum class KvType : uint8_t { f32, bf16, f16, f8_e4m3, i8 };
constexpr size_t kNumKvTypes = 5;

// The functions of the MLP, as ops::Activation.
enum class ActivationKind : uint8_t { silu, gelu, gelu_tanh, relu, sigmoid, identity };
constexpr size_t kNumActivations = 6;

// Most columns of a block, and of one whose weights are read as streams.
constexpr int64_t kMaxMatmulColumns = 96;
constexpr int64_t kMaxStreamColumns = 512;
// Values of k that are added up in lanes before the lanes are added together.
constexpr int64_t kBlockK = 1024;

// One block of a matrix product: rows of x, packed in panels, by consecutive weight rows.
struct MatmulBlock {
    const void* x;  // from MatmulKernels::pack, [tokens] rows in panels; room for full panels
    int64_t tokens;
    const void* weight;  // [columns, in], contiguous
    // The weights that the thread will probably multiply next; null: none. They are fetched
    // meanwhile, never read.
    const void* next_weight;
    int64_t next_columns;
    int64_t bytes_ahead;  // from where weights are read to where they are fetched
    int64_t bytes_early;  // the same for the second-level cache, with few rows of x; or 0
    // Room for kMaxMatmulColumns x kBlockK packed values; unused for up to
    // max_in_place_tokens.
    void* packed_weight;
    int64_t columns;
    int64_t in;
    const float* bias;  // [columns], or null
    float* y;           // [tokens, columns], rows y_stride apart
    int64_t y_stride;
    bool accumulate;
};

constexpr int64_t kAnyNumber = std::numeric_limits<int64_t>::max();

// Products whose factors meet in one form. x is packed in panels of up to max_panel_rows rows, step
// by step of `step` values of k, zeros after the last; panel p of n holds rows
// [tokens * p / n, tokens * (p + 1) / n) or, where panels are full but for the last one, from
// max_panel_rows * p on.
struct MatmulKernels {
    int64_t max_panel_rows;
    int64_t columns_at_once;  // a block's columns are best a multiple of this
    int64_t step;
    size_t packed_bytes;  // of one packed value
    int64_t max_in_place_tokens;
    int64_t max_x_bytes;  // of a block's packed rows, which are to stay in a cache
    void (*pack)(const float* x, int64_t stride, int64_t rows, int64_t in, void* packed);
    void (*multiply)(const MatmulBlock& block);
    int64_t max_stream_rows = 0;  // up to so many rows of x read weights as streams
    bool are_panels_full = false;
    int64_t max_block_tokens = kAnyNumber;  // rows of x that are multiplied by a block of weights
    int64_t min_block_tokens = 32;          // unless there are fewer
    // What multiplies more than max_in_place_tokens rows, with a `pack` that orders the values of a
    // panel for it; null: these.
    const MatmulKernels* for_more_rows = nullptr;

    int64_t panel_begin(int64_t tokens, int64_t panel) const {
        const int64_t panels = (tokens + max_panel_rows - 1) / max_panel_rows;
        if (panel == panels) return tokens;
        return are_panels_full ? max_panel_rows * panel : tokens * panel / panels;
    }
};

// By FloatType of the weights.
using MatmulByWeight = std::array<MatmulKernels, kNumFloatTypes>;

// Softmax over one tile of scores, for rows that each see their own positions.
struct SoftmaxTile {
    float* scores;  // [rows, 64], overwritten by probabilities before division by the denominator
    int64_t rows;
    const int64_t* begin;  // [rows]: first visible position within the tile
    const int64_t* end;    // [rows]: one past the last; at most begin when nothing is visible
    float scale;
    float soft_cap;      // 0: off
    float* maximum;      // [rows]
    float* denominator;  // [rows]
    float* correction;   // [rows], written: factor for what was summed before
};

// Two softmax states of the same rows, over positions of their own: the first becomes that of both.
// Maxima are powers of two, as softmax_tile leaves them.
struct SoftmaxStates {
    float* outputs;  // [rows, width]
    float* maximum;  // [rows]
    float* denominator;
    const float* next_outputs;
    const float* next_maximum;
    const float* next_denominator;
    int64_t rows;
    int64_t width;  // a multiple of the kernels' lanes
};

// How factors of attention meet: by words of four bytes, which are a float32 or two bfloat16 that
// one instruction multiplies and adds. What `next` points to below lies as the keys or values do
// and will be wanted soon: it is fetched, not read.

// Where parts of keys or values lie, for one head: all as far from where they lie for the first.
struct PlacedParts {
    const std::byte* const* at;  // of the first head
    ptrdiff_t offset;            // in bytes
    const std::byte* const* next;
    ptrdiff_t next_offset;

    const std::byte* part(int64_t i) const { return at[i] + offset; }
    const std::byte* next_part(int64_t i) const { return next[i] + next_offset; }
};

// Keys of positions side by side, dimension by dimension, which become words.
struct KeysToLoad {
    const void* keys;
    const void* next;
    int64_t key_stride;  // from one dimension to the next, in values
    int64_t head_dim;
    int64_t positions;
    float* out;  // [head_dim / step, positions], rows out_stride apart
    int64_t out_stride;
};

// Values of positions anywhere, which become words.
struct ValuesToLoad {
    PlacedParts values;  // [positions]
    int64_t positions;   // a multiple of the step
    int64_t width;
    float* out;  // [positions / step, width], rows out_stride apart
    int64_t out_stride;
};

// Scores of a few queries with positions of a tile, vector by vector of them, from keys as they lie
// in the cache.
struct DecodeScores {
    const float* queries;  // [rows, head_dim / step], rows query_stride apart
    int64_t query_stride;
    int64_t rows;
    int64_t head_dim;
    PlacedParts keys;  // [vectors]: a vector's first dimension; the others key_stride values apart
    int64_t key_stride;
    int64_t vectors;
    float* scores;  // [rows, vectors of positions], rows score_stride apart
    int64_t score_stride;
};

// out = out * factor + weights · values, positions in ascending order, with values as they lie in
// the cache.
struct DecodeMatmul {
    const float* weights;  // [rows, positions / step], rows weight_stride apart
    int64_t weight_stride;
    const float* factor;  // [rows]
    int64_t rows;
    PlacedParts values;  // [positions]
    int64_t positions;   // a multiple of the words that are summed at once
    int64_t width;       // of values and out; a multiple of the kernels' lanes
    float* out;          // [rows, width], rows out_stride apart
    int64_t out_stride;
};

struct AttentionMatmuls {
    int64_t step;  // values in a word; 0: there are no such products
    // Depths are a multiple of it, and what is summed begins at such a multiple of a tile's
    // positions: so many words make one sum that is added.
    int64_t words_at_once = 1;
    // The first `count` values of each row become words, in place; null: they are.
    void (*pack)(float* rows, int64_t stride, int64_t num_rows, int64_t count);
    void (*load_keys)(const KeysToLoad& keys);
    void (*load_values)(const ValuesToLoad& values);
    // c[rows, width] += a[rows, depth] · b[depth, width] of words, k ascending, onto c, after c was
    // multiplied by `factor` of its row (null: by zero). width is a multiple of `lanes`.
    void (*outer_product)(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                          float* c, int64_t c_stride, int64_t rows, int64_t depth, int64_t width,
                          const float* factor);
    // The same products with keys and values as they lie; for a few rows that is less work than to
    // load a tile for them, and memory is asked for something all the time.
    void (*decode_scores)(const DecodeScores& scores);
    void (*decode_matmul)(const DecodeMatmul& sums);
};

// Columns that rows of quantized matmuls are computed for at a time, and values of k whose
// products are summed before they are scaled.
constexpr int64_t kQuantizedColumns = 64;
constexpr int64_t kQuantizedBlockK = 128;
// float32 values of room for quantized values that are multiplied in another form than they are
// stored in: of all columns a K-block in float32, or two bytes for each of `in` values of k.
constexpr int64_t dequantized_values(int64_t in) {
    const int64_t k_block = kQuantizedBlockK * kQuantizedColumns;
    const int64_t all = kQuantizedColumns * in * 2 / static_cast<int64_t>(sizeof(float));
    return k_block < all ? all : k_block;
}
constexpr size_t kNumWeightFormats = 7;

// Rows of x by up to four panels of 16 columns of quantized weights.
struct QuantizedBlock {
    const void* x;     // float32, or as one of the `arrange` lays it out
    int64_t x_stride;  // in values; rows are padded with zeros to `in`
    int64_t rows;
    const float* x_scales;  // [rows, groups of x], rows x_scale_stride apart; null: none
    int64_t x_scale_stride;
    int64_t x_group_size;  // no K-block crosses such a group
    const int32_t*
        x_corrections;  // [rows, groups]: of int4 weights, -8 * sum of a group's quantized values
    // [rows, x_k_blocks]: what divide_for_int4 summed up; null where it is not called.
    const float* x_sums;
    int64_t x_k_blocks;
    const std::byte* codes;  // panels, panel_bytes apart
    int64_t panel_bytes;
    int64_t quantized_bytes;  // of one panel
    bool fetches_early;  // quantized values are asked for twice, as prefetches_weights() has it
    // Panels that the thread will probably multiply next, where there is time to fetch them; null:
    // none.
    const std::byte* weight_prefetch;
    int64_t next_panel_bytes;
    int next_panels;
    int64_t panel_groups;  // scales of one panel and the next are so many groups apart
    int panels;
    DType scale_type;
    const void* scales;         // [panels, panel_groups, 16]
    const int8_t* zero_points;  // the same; null: none
    const int32_t*
        corrections;     // the same: of int8 weights, -128 * sum of a group's quantized values
    int64_t in;          // a multiple of 8; of 32 where weights are sparse
    int64_t group_size;  // the same
    int64_t groups;
    float* totals;       // room for [rows, kQuantizedColumns], sums of the groups so far
    float* dequantized;  // room for dequantized_values(in)
    // y = total * factor * the row's scale + bias (+ y)
    float factor;
    const float* row_scales;  // [rows]; null: 1
    const float* bias;        // [panels, 16]
    bool accumulates;
    float* y;                // of the first panel
    int64_t y_stride;        // values from row to row
    int64_t y_panel_stride;  // and from panel to panel
    int64_t last_columns;    // of the last panel: 1 to 16
};

// Products of bfloat16 with weights, pair by pair; null: no instruction.
struct QuantizedVnniPairs {
    void (*multiply)(const QuantizedBlock& block);
    void (*arrange)(const float* x, int64_t count, void* arranged);  // x is rounded to bfloat16
    bool takes_zero_points = false;
};

// By ops::WeightFormat; integers of x times int4 and int8.
struct QuantizedKernels {
    void (*multiply[kNumWeightFormats])(const QuantizedBlock& block);
    void (*multiply_integers[2])(const QuantizedBlock& block);
    void (*arrange[2])(const int8_t* codes, int64_t count, void* arranged);
    size_t integer_bytes[2];  // of one arranged code
    QuantizedVnniPairs pairs[kNumWeightFormats];
    double (*int8_loop)(int64_t rounds);  // as Kernels::float32_loop, of integers
    // Divides a row of float32 x, in place, by what `multiply` of int4 quantized values takes them
    // times. sums: of each K-block of at most kQuantizedBlockK values, as for_each_k_block gives
    // them for this block, what they summed up to before. Null: it takes quantized values as they
    // are.
    void (*divide_for_int4)(const QuantizedBlock& block, float* x, float* sums);
    int32_t (*sum_quantized)(const int8_t* codes, int64_t count);
};

// Tokens of one sequence over columns of a head's state, one after another, as
// ops::linear_attention().
struct LinearAttentionColumns {
    int64_t tokens;
    int64_t key_dim;
    int64_t columns;
    const float* queries;  // [tokens, key_dim], rows query_stride apart
    int64_t query_stride;
    const float* keys;
    int64_t key_stride;
    const float* values;  // [tokens, columns], rows value_stride apart
    int64_t value_stride;
    const float* decay;  // [tokens] or [tokens, key_dim], rows decay_stride apart
    int64_t decay_stride;
    bool by_dimension;    // one of each dimension
    const float* update;  // [tokens], update_stride apart
    int64_t update_stride;
    bool is_delta;
    float skip;
    float* state;  // [key_dim, columns], rows state_stride apart
    int64_t state_stride;
    float* out;  // [tokens, columns], rows out_stride apart
    int64_t out_stride;
};

// Rows of x by rows of one adapter's A: out[i][r] = scale * x[i] · a[r].
struct LoraDots {
    const float* const* x;  // [rows], of `in` values each
    int64_t rows;
    const void* a;  // [ranks, in]
    int64_t ranks;
    int64_t in;
    float scale;
    float* const* out;  // [rows], of `ranks` values each
};

// y[i][o] += bias[o] + sum over r of inner[i][r] * b[r][o], r ascending.
struct LoraSums {
    const float* const* inner;  // [rows], of `ranks` values each
    int64_t rows;
    const void* b;  // [ranks, columns], rows b_stride values apart
    int64_t b_stride;
    int64_t ranks;
    const float* bias;  // [columns]; null: none
    int64_t columns;
    float* const* y;  // [rows], of `columns` values each
};

struct Kernels {
    // Rows of values: out = x * scale in float32, and x rounded to nearest even.
    void (*upcast[kNumFloatTypes])(const void* x, float scale, float* out, int64_t count);
    void (*narrow[kNumFloatTypes])(const float* x, void* out, int64_t count);
    // x * factor as Float8E4M3, and as int8, which it lies within.
    void (*narrow_f8)(const float* x, float factor, void* out, int64_t count);
    void (*narrow_i8)(const float* x, float factor, void* out, int64_t count);
    // x / divisor, brought between `low` and `high` and rounded to nearest even.
    void (*round_i8)(const float* x, float divisor, float low, float high, int8_t* out,
                     int64_t count);
    // max |x|; NaN where a value is NaN or infinite.
    float (*magnitude)(const float* x, int64_t count);

    void (*add)(const float* x, float* y, int64_t count);
    void (*soft_cap)(float cap, float* x, int64_t count);
    void (*activation[kNumActivations])(const float* x, float* out, int64_t count);
    void (*gated_activation[kNumActivations])(const float* gate, const float* up, float* out,
                                              int64_t count);

    void (*rms_norm[kNumFloatTypes])(const float* x, const void* weight, float epsilon,
                                     float weight_offset, float* out, int64_t count);
    // weight and bias of one type; bias may be null.
    void (*layer_norm[kNumFloatTypes])(const float* x, const void* weight, const void* bias,
                                       float epsilon, float* out, int64_t count);

    // out = x / sqrt(sum(x²) + epsilon) * scale
    void (*l2_norm)(const float* x, float epsilon, float scale, float* out, int64_t count);
    // out = bias + sum over taps of weight[tap] * rows[tap]; weight [taps, count]; a null row, and
    // a null bias [count], is of zeros.
    void (*conv_row)(const float* const* rows, const float* weight, const float* bias, int64_t taps,
                     float* out, int64_t count);
    void (*linear_attention)(const LinearAttentionColumns& columns);

    // By FloatType of the adapter.
    void (*lora_dots[kNumFloatTypes])(const LoraDots& dots);
    void (*lora_sums[kNumFloatTypes])(const LoraSums& sums);

    // Rotates pairs (i, i + half) of one head.
    void (*rope)(const float* cosines, const float* sines, float* x, int64_t half);

    // Indexed by the type of the product's x factor after rounding, then by the weight's type.
    std::array<MatmulByWeight, kNumFloatTypes> matmul;

    QuantizedKernels quantized;

    // Lanes of a vector; rows of the tiles below are padded to a multiple of it.
    int64_t lanes;
    void (*softmax_tile)(const SoftmaxTile& tile);
    void (*merge_softmax)(const SoftmaxStates& states);
    AttentionMatmuls attention[kNumKvTypes];  // of float32 words
    AttentionMatmuls attention_vnni_pairs;    // of bfloat16 words, keys and values
    // Rows of 64 values, times a factor for each column.
    void (*scale_tile)(float* rows, int64_t num_rows, const float* factors);
    // out = x * factor
    void (*scale)(const float* x, float factor, float* out, int64_t count);

    // What kernels/cpu/probe.h times. The loops return floating-point operations per round.
    void (*read_one_stream)(const std::byte* memory, int64_t bytes);
    void (*read_four_streams)(const std::byte* memory, int64_t bytes);
    double (*float32_loop)(int64_t rounds);
    double (*bfloat16_loop)(int64_t rounds);
};

const Kernels& scalar_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512bf16_kernels();
const Kernels& avx512amx_kernels();

// Integer products by VNNI instructions, for AVX-512 where the processor has them.
const QuantizedKernels& avx512vnni_kernels();

// The table of current_isa().
const Kernels& kernels();

}  // namespace nvllm::cpu
