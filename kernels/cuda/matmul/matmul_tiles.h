// What the kernels of matmuls share. For .cu files only.
//
// Every output is one accumulator of sums over k in ascending order, whatever tile it falls into:
// its bits do not depend on the number of rows beside it.
#pragma once

#include "kernels/cuda/elements.h"
#include "kernels/ops/matmul.h"

namespace nvllm::cuda {

// y[tokens, out] = x[tokens, in] · weight[out, in]^T, as plain data.
struct MatmulCall {
    const void* x;
    const void* weight;  // rows `in` apart
    const void* bias;    // may be null
    void* y;
    int64_t x_stride;
    int64_t y_stride;
    int tokens;
    int in;
    int out;
    DType x_type;
    DType bias_type;
    DType y_type;
    bool x_aligned;       // each row of 8 k whole 16-byte words
    bool weight_aligned;  // likewise
    bool pairs_aligned;   // two neighbours of y can be written at once
    bool accumulate;
    // Products of groups of rows: rows [starts[g], starts[g + 1]) of x with weights `weight_stride`
    // values after those of the group before. Null: one group of `tokens` rows.
    const int32_t* starts;
    int groups;
    int64_t weight_stride;
};

// The rows of x and y that a block takes: those of one group from `first` up to `end`.
struct RowTile {
    int first;
    int end;
    int64_t weight_offset;
};

// Tiles of group g are numbered from starts[g] / rows + g on: at least as many numbers as it has
// tiles, without a look at the other groups.
__device__ __forceinline__ RowTile find_rows(const MatmulCall& call, int number, int rows) {
    if (call.starts == nullptr) return {number * rows, call.tokens, 0};
    int low = 0;
    int high = call.groups;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (call.starts[middle] / rows + middle <= number ? low : high) = middle;
    }
    const int tile = number - (call.starts[low] / rows + low);
    return {call.starts[low] + tile * rows, call.starts[low + 1], low * call.weight_stride};
}

inline uint32_t num_row_tiles(const MatmulCall& call, int rows) {
    if (call.starts == nullptr) return blocks_for(call.tokens, rows);
    return static_cast<uint32_t>(call.tokens / rows + call.groups);
}

// What matmul() and grouped_matmul() have in common.
MatmulCall describe_matmul(const ConstTensorView& x, const ConstTensorView& weight,
                           const ConstTensorView& bias, const TensorView& y);

template <typename T>
__device__ __forceinline__ float load_as_float(const void* data, int64_t index) {
    return gpu::to_float(static_cast<const T*>(data)[index]);
}

// data[index] of any float type.
__device__ __forceinline__ float load_float(const void* data, DType dtype, int64_t index) {
    if (dtype == DType::f32) return load_as_float<float>(data, index);
    if (dtype == DType::bf16) return load_as_float<__nv_bfloat16>(data, index);
    return load_as_float<__half>(data, index);
}

// The run at data[index].
__device__ __forceinline__ void load_run_of(const void* data, DType dtype, int64_t index,
                                            int64_t count, bool aligned, float (&values)[kRun]) {
    if (dtype == DType::f32) {
        load_run(static_cast<const float*>(data) + index, count, aligned, values);
    } else if (dtype == DType::bf16) {
        load_run(static_cast<const __nv_bfloat16*>(data) + index, count, aligned, values);
    } else {
        load_run(static_cast<const __half*>(data) + index, count, aligned, values);
    }
}

__device__ __forceinline__ void store_float(void* data, DType dtype, int64_t index, float value) {
    if (dtype == DType::f32) {
        static_cast<float*>(data)[index] = value;
    } else if (dtype == DType::bf16) {
        static_cast<__nv_bfloat16*>(data)[index] = gpu::from_float<__nv_bfloat16>(value);
    } else {
        static_cast<__half*>(data)[index] = gpu::from_float<__half>(value);
    }
}

// The sum over k on its way to y: what was there joins it first, then the bias.
__device__ __forceinline__ float finished(const MatmulCall& call, int token, int column,
                                          float sum) {
    if (call.accumulate) {
        sum += load_float(call.y, call.y_type, token * call.y_stride + column);
    }
    if (call.bias != nullptr) sum += load_float(call.bias, call.bias_type, column);
    return sum;
}

// `end`: the first row that does not belong to the tile.
__device__ __forceinline__ void write_output(const MatmulCall& call, int end, int token, int column,
                                             float sum) {
    if (token >= end || column >= call.out) return;
    store_float(call.y, call.y_type, token * call.y_stride + column,
                finished(call, token, column, sum));
}

// Two neighbouring columns.
__device__ __forceinline__ void write_pair(const MatmulCall& call, int end, int token, int column,
                                           float first, float second) {
    if (!call.pairs_aligned || column + 1 >= call.out) {
        write_output(call, end, token, column, first);
        write_output(call, end, token, column + 1, second);
        return;
    }
    if (token >= end) return;
    first = finished(call, token, column, first);
    second = finished(call, token, column + 1, second);
    const int64_t index = token * call.y_stride + column;
    if (call.y_type == DType::f32) {
        gpu::store8(static_cast<float*>(call.y) + index,
                    make_uint2(gpu::float_as_bits(first), gpu::float_as_bits(second)));
    } else if (call.y_type == DType::bf16) {
        gpu::store4(static_cast<__nv_bfloat16*>(call.y) + index,
                    gpu::pack2<__nv_bfloat16>(first, second));
    } else {
        gpu::store4(static_cast<__half*>(call.y) + index, gpu::pack2<__half>(first, second));
    }
}

// The launches of matmul_tensor_cores.cu (weights and product of one 16-bit type) and
// matmul_simt.cu.
void launch_gemm_tensor_cores(const Context& context, const MatmulCall& call, DType compute_type);
void launch_gemm_simt(const Context& context, const MatmulCall& call, DType weight_type,
                      DType compute_type);

}  // namespace nvllm::cuda
