// What the kernels of products with quantized weights share. For .cu files only.
//
// Every output is one chain of sums, whatever tile it falls into: its bits do not depend on the
// rows beside it. The products of a group of weights (and of a group of x, where x has scales of
// groups) are summed by rising k, beginning with 0, or exactly where both are integers; that sum,
// times the scale or scales, joins the groups before it. At last come the factor, the scale of the
// row of x, y and the bias.
#pragma once

#include "kernels/cuda/matmul_tiles.h"
#include "kernels/cuda/quantized_codes.h"

namespace nvllm::cuda {

// A product, as plain data. x of `product`: rounded to the product's type, or codes as values of
// that type or as bytes in the order of place_of(); rows are whole runs of 16 bytes, and zero
// beyond `in`.
struct QuantizedCall {
    MatmulCall product;
    const void* x;
    int64_t x_stride;
    const unsigned char* packed;
    PackedQuantized parts;
    DType scale_type;
    bool has_zero_points;
    int group_size;         // at most `in`
    int x_group_size;       // 0: no scales of groups
    const float* x_scales;  // [tokens, groups of x], or one a token; null: none
    int64_t x_scales_stride;
    float factor;

    __device__ __forceinline__ const unsigned char* codes(int64_t tile, int64_t unit) const {
        return packed + (tile * parts.units + unit) * kUnitBytes;
    }
    __device__ __forceinline__ float scale(int64_t group, int64_t column) const {
        return load_float(packed + parts.scales, scale_type, group * parts.columns + column);
    }
    __device__ __forceinline__ int zero_point(int64_t group, int64_t column) const {
        if (!has_zero_points) return 0;
        const auto* points = reinterpret_cast<const int8_t*>(packed + parts.zero_points);
        return points[group * parts.columns + column];
    }
    // Of a token and a value of k; 1 where scales are not those of groups.
    __device__ __forceinline__ float x_group_scale(int64_t token, int k) const {
        if (x_group_size == 0 || token >= product.tokens) return 1.0f;
        return x_scales[token * x_scales_stride + k / x_group_size];
    }
    __device__ __forceinline__ float finished(int64_t token, float total) const {
        total *= factor;
        const bool has_row_scale = x_scales != nullptr && x_group_size == 0;
        return has_row_scale && token < product.tokens ? total * x_scales[token * x_scales_stride]
                                                       : total;
    }
    // The first k behind `k` at which a group of weights or of x ends.
    __device__ __forceinline__ int next_border(int k) const {
        int border = (k / group_size + 1) * group_size;
        if (x_group_size > 0) {
            const int x_border = (k / x_group_size + 1) * x_group_size;
            border = x_border < border ? x_border : border;
        }
        return border < product.in ? border : product.in;
    }
};

// The launches of matmul_quantized_tensor_cores.cu (x of bfloat16 or float16, or of one byte) and
// matmul_quantized_exact.cu (x of float32).
void multiply_quantized_on_tensor_cores(const Context& context, const QuantizedCall& call,
                                        ops::WeightCode code, DType product_type);
void multiply_integers_on_tensor_cores(const Context& context, const QuantizedCall& call,
                                       ops::WeightCode code);
void multiply_quantized_exactly(const Context& context, const QuantizedCall& call,
                                ops::WeightCode code);

}  // namespace nvllm::cuda
