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

#include "kernels/types.h"

namespace nvllm::cpu {

// Element types that weights and caches may have; indexes the arrays below.
enum class FloatType : uint8_t { f32, bf16, f16 };
constexpr size_t kNumFloatTypes = 3;

// The functions of the MLP, as ops::Activation.
enum class ActivationKind : uint8_t { silu, gelu, gelu_tanh, relu };
constexpr size_t kNumActivations = 4;

// Most columns of a block.
constexpr int64_t kMaxMatmulColumns = 96;
// Values of k that are added up in lanes before the lanes are added together.
constexpr int64_t kMatmulStretch = 1024;

// One block of a matrix product: rows of x, packed in panels, by consecutive weight rows.
struct MatmulBlock {
    const void* x;  // from MatmulKernels::pack, [tokens] rows in panels
    int64_t tokens;
    const void* weight;  // [columns, in], contiguous
    // The weights that the thread will probably multiply next, as many; null: none. They are
    // fetched meanwhile, never read.
    const void* next_weight;
    // Room for kMaxMatmulColumns x kMatmulStretch packed values; unused for up to
    // max_in_place_tokens.
    void* packed_weight;
    int64_t columns;
    int64_t in;
    const float* bias;  // [columns], or null
    float* y;           // [tokens, columns], rows y_stride apart
    int64_t y_stride;
    bool accumulate;
};

// Products whose factors meet in one form. x is packed in panels of up to max_panel_rows rows, each
// [steps][rows][step] with `step` values of k side by side and zeros after the last; panel p of n
// holds rows [tokens * p / n, tokens * (p + 1) / n).
struct MatmulKernels {
    int64_t max_panel_rows;
    int64_t columns_at_once;  // a block's columns are best a multiple of this
    int64_t step;
    size_t packed_bytes;  // of one packed value
    int64_t max_in_place_tokens;
    void (*pack)(const float* x, int64_t stride, int64_t rows, int64_t in, void* packed);
    void (*multiply)(const MatmulBlock& block);
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

// Rows of values that become float32. Strides in values.
struct RowsToWiden {
    const void* x;
    int64_t x_stride;
    const void* next;  // what lies in memory as x does and will be wanted soon: fetched, not read
    float* out;
    int64_t out_stride;
    int64_t rows;
    int64_t count;  // values of a row
};

struct Kernels {
    // Rows of values: out = x * scale in float32, and x rounded to nearest even.
    void (*widen[kNumFloatTypes])(const void* x, float scale, float* out, int64_t count);
    void (*narrow[kNumFloatTypes])(const float* x, void* out, int64_t count);
    void (*widen_rows[kNumFloatTypes])(const RowsToWiden& rows);

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

    // Rotates pairs (i, i + half) of one head.
    void (*rope)(const float* cosines, const float* sines, float* x, int64_t half);

    // Indexed by the type of the product's x factor after rounding, then by the weight's type.
    std::array<MatmulByWeight, kNumFloatTypes> matmul;

    // Lanes of a vector; rows of the tiles below are padded to a multiple of it.
    int64_t lanes;
    void (*softmax_tile)(const SoftmaxTile& tile);
    // c[rows, width] += a[rows, depth] · b[depth, width], k ascending, by fused multiply-add onto
    // c, after c was multiplied by `factor` of its row (null: by zero). width is a multiple of
    // `lanes`.
    void (*outer_product)(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                          float* c, int64_t c_stride, int64_t rows, int64_t depth, int64_t width,
                          const float* factor);
    // out = x * factor
    void (*scale)(const float* x, float factor, float* out, int64_t count);

    // What kernels/probe.h times. The loops return floating-point operations per round.
    void (*read_memory)(const std::byte* memory, int64_t bytes);
    double (*float32_loop)(int64_t rounds);
    double (*bfloat16_loop)(int64_t rounds);
};

const Kernels& scalar_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512bf16_kernels();

// The table of current_isa().
const Kernels& kernels();

}  // namespace nvllm::cpu
