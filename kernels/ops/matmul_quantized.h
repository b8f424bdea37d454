// Matmuls of activations with weights that are stored in fewer bytes than they have when they are
// multiplied: quantized ones, which are dequantized in registers, and those whose zeros are not
// stored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/context.h"
#include "kernels/ops/matmul.h"
#include "kernels/view.h"

namespace nvllm::ops {

// The format of one quantized weight.
enum class WeightFormat : uint8_t {
    int4,    // -8 .. 7
    int8,    // -128 .. 127
    float4,  // E2M1: index of a magnitude (0, 0.5, 1, 1.5, 2, 3, 4, 6) in bits 0 .. 2, sign in bit
             // 3
    float8,  // E4M3 without infinities
    // Two of each four neighbours in a row, with their indices; the other two are zeros that are
    // neither stored nor multiplied.
    sparse_bfloat16,
    sparse_float16,
    sparse_float8,
};
constexpr int kNumWeightFormats = 7;

constexpr bool is_sparse(WeightFormat code) { return code >= WeightFormat::sparse_bfloat16; }
// The type of quantized values, or of the values of sparse weights, before they are packed.
constexpr DType plain_type(WeightFormat code) {
    if (code == WeightFormat::sparse_bfloat16) return DType::bf16;
    return code == WeightFormat::sparse_float16 ? DType::f16 : DType::i8;
}

// Changes with what pack_weight() writes on the CPU, where files may keep it.
constexpr int kPackingVersion = 2;

// A matrix [out, in] of quantized values; value = (code - zero point) * scale * factor. Sparse ones
// have rows of a multiple of four.
struct QuantizedLayout {
    WeightFormat code = WeightFormat::int8;
    int64_t out = 0;
    int64_t in = 0;
    int64_t group_size = 0;        // columns that share a scale: a multiple of 16, or at least `in`
    bool has_zero_points = false;  // integers only
    // Of scales, in memory: float32, or bfloat16 or float16 where these hold them exactly.
    DType scale_type = DType::f32;

    int64_t groups() const { return (in + group_size - 1) / group_size; }
    bool operator==(const QuantizedLayout&) const = default;
};

// How x is rounded before it is multiplied.
enum class ActivationFormat : uint8_t {
    compute_type,  // no more than every product does
    int8,          // symmetric: scale = largest magnitude / 127.5, values -128 .. 127
    int4,          // symmetric: scale = largest magnitude / 7.5, values -8 .. 7
    float8,        // E4M3: scale = largest magnitude / 448
    float4,        // E2M1
};
constexpr int kNumActivationFormats = 5;

struct ActivationRounding {
    ActivationFormat code = ActivationFormat::compute_type;
    // Values of a row that share a scale; 0: all of them.
    int64_t group_size = 0;
    // int8, float8: of all values, instead of scales from the values themselves; 0: none.
    float scale = 0.0f;
    // float4 in groups of 16: local scales are E4M3 of (largest magnitude / 6) * global_scale.
    float global_scale = 0.0f;
    // float8 and float4 in groups of 32: scales are powers of two, as in MX formats.
    bool powers_of_two = false;
    bool operator==(const ActivationRounding&) const = default;
};

// A packed matrix.
struct QuantizedWeight {
    QuantizedLayout layout;
    float factor = 1.0f;  // of all values
    ActivationRounding activations;
    ConstTensorView packed;  // uint8 [quantized_weight_bytes()], written by pack_weight()
    // int32 [in]: the column of x that each packed column multiplies; data == nullptr: the same. So
    // columns of one group lie together whatever order they were quantized in.
    ConstTensorView columns;
    // Of a call in which each row of x is a slice of a longer one: float32 [tokens], the largest
    // magnitude in all of it, by which it is rounded; data == nullptr: x has whole rows. Only where
    // rounds_by_rows().
    ConstTensorView row_maxima;
};

// Whether a row of x is rounded by the largest magnitude in it.
constexpr bool rounds_by_rows(const ActivationRounding& rounding) {
    return rounding.code != ActivationFormat::compute_type && rounding.group_size == 0 &&
           rounding.scale == 0.0f && rounding.global_scale == 0.0f && !rounding.powers_of_two;
}

// Whether the target's device multiplies such a matrix, of these activations, as it is packed.
// Where it does not, callers dequantize the matrix and use matmul().
bool can_multiply_quantized(const QuantizedLayout& layout, const ActivationRounding& activations,
                            const ComputeTarget& target);

// Bytes of a packed matrix: its quantized values, scales and zero points, in an order of the
// device's own.
size_t quantized_weight_bytes(const QuantizedLayout& layout, const ComputeTarget& target);

// What a file says of a matrix, in memory of the context's device.
struct UnpackedQuantizedWeight {
    // plain_type() [out, in], contiguous; of sparse matrices what is kept, [out, in / 2].
    ConstTensorView codes;
    ConstTensorView scales;       // float32 [out, groups] or [1, groups]: one for all rows
    ConstTensorView zero_points;  // int8, as scales, in their range; no data: none
    // Of sparse matrices, uint8 [out, ceil(in / 8)]: bit k % 8 of byte k / 8 says whether column k
    // is kept, which two of each four are; data == nullptr for others.
    ConstTensorView places = {};
};

// Once, when a model is loaded. Packed so that a product reads it from front to back.
void pack_weight(const Context& context, const QuantizedLayout& layout,
                 const UnpackedQuantizedWeight& plain, const TensorView& packed);

// y[tokens, out] = x[tokens, in] · weight^T (+ bias[out]); x, bias, compute_type, output and y as
// matmul() takes them.
//
// x is rounded as `weight.activations` says: to the compute type, else to quantized values of its
// own. Quantized values less their zero points are exact operands; no scaled weight is ever
// rounded. Sums depend on `in`, the layout, the types and the instruction set alone: never on
// tokens, out, the other rows or the number of threads. A device that is not asked for that
// (set_batch_invariant) may take another way for many rows, on which scaled weights and scaled
// quantized values of x are rounded to the compute type.
//
// Order of the sum on the CPU, for each output by itself. Each group of weights is summed in
// K-blocks of 128 values of k from the group's begin on, its last one shorter. A K-block begins
// with 0 and adds the products of rising k by fused multiply-add (scalar: multiply, then add). Its
// sum, times the scale of the weights, is added to the K-blocks before it, beginning with 0, by
// fused multiply-add too. At last comes total * factor (* the scale of x), plus the bias, plus y
// where it is accumulated. Where x is int8 or int4 in one group and weights are integers without
// zero points, a group of weights is one K-block of integer sums, which have no order. Where the
// instruction set multiplies pairs of bfloat16 and both factors are such values (x of that compute
// type or in float8 with a scale beside it, weights of 4 bits or in float8, without zero points), a
// group of weights is one K-block and pairs are added by one instruction each: of eight 4-bit
// values of k, 0 and 4, then 1 and 5, 2 and 6, 3 and 7; of four in float8, 0 and 2, then 1 and 3.
// Where it has tiles, int8 and 4-bit values with zero points are such pairs too, K-blocks have at
// most 256 values, and the sum of each 32 is that of a tile product (the even ones of its pairs,
// then the odd ones; subnormal numbers are zeros). Where x has scales of groups, K-blocks end with
// those as well, and are multiplied by both scales' product.
//
// Sparse weights are summed in K-blocks of 1,024 values of k, of which one in two is multiplied:
// the two that are kept of each four by rising k, or both by one instruction where pairs of
// bfloat16 are multiplied. A NaN or an infinity in x reaches the outputs that keep a weight for it,
// be that a zero, and no others; where tiles multiply, all of its row.
void matmul_quantized(const Context& context, const ConstTensorView& x,
                      const QuantizedWeight& weight, const ConstTensorView& bias,
                      DType compute_type, MatmulOutput output, const TensorView& y);

}  // namespace nvllm::ops
