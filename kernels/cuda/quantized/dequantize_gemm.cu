// Products of many rows with quantized weights by way of a dense matrix.
//
// dequantize_kernel: a warp for each unit of packed quantized values, four in a block. Lanes have
// quantized values of a column two by two (packed_weights.h), so the values go through shared
// memory, 9 KiB a block, to be written 16 bytes at a time. Each code is read once, each value
// written once: 2.5 bytes a weight of 4 bits; the dense matmul reads the 2 of a chunk again, in
// part from the second-level cache.
#include "kernels/cuda/quantized/dequantize_gemm.h"

#include <algorithm>

#include "kernels/cuda/matmul/matmul_selection.h"
#include "kernels/cuda/quantized/packed_weights.h"
#include "kernels/cuda/quantized/quantized_tiles.h"

namespace nvllm::cuda {
namespace {

// A chunk on its way to values [columns, in], as plain data.
struct DequantizeCall {
    ColumnChunk chunk;
    void* values;
};

template <typename T, ops::WeightFormat code>
__global__ void __launch_bounds__(ColumnChunk::kWarps * 32) dequantize_kernel(DequantizeCall call) {
    gpu::wait_for_work_before();
    constexpr int kDepth = unit_depth(code);
    constexpr int kSteps = kDepth / kStepDepth;
    constexpr int kStride = kDepth + 8;  // so that columns lie in different banks
    GPU_SHARED(T, memory, [ColumnChunk::kWarps][kColumnTile * kStride]);
    const QuantizedCall& weight = call.chunk.weight;
    int tile;
    int unit;
    if (!call.chunk.find(tile, unit)) return;
    const int lane = gpu::lane_id();
    uint32_t words[4];
    call.chunk.load<code>(tile, unit, words);
    const int64_t column = call.chunk.column(tile, lane >> 2);
    T* const values = memory[gpu::warp_id()];
    int group = -1;
    float scale = 0.0f;
    int zero_point = 0;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        const int first_k = unit * kDepth + step * kStepDepth;
        if (step == 0 || weight.group_size % kDepth != 0) {
            const int of_step = first_k / weight.group_size;
            if (of_step != group && first_k < weight.product.in) {
                group = of_step;
                scale = weight.scale(group, column) * weight.factor;
                zero_point = weight.zero_point(group, column);
            }
        }
        uint32_t pairs[2];
        Dequantize<T, code>::fragment(words, step, zero_point, pairs);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float2 codes = gpu::unpack2<T>(pairs[i]);
            T* const to = values + (lane >> 2) * kStride + step * kStepDepth + k_of(lane, 2 * i);
            gpu::store4(to, gpu::pack2<T>(codes.x * scale, codes.y * scale));
        }
    }
    gpu::sync_warp();
    constexpr int kChunks = kDepth / kRun;  // of a column
    T* const out = static_cast<T*>(call.values);
    for (int i = lane; i < kColumnTile * kChunks; i += 32) {
        const int own_column = i / kChunks;
        const int k = unit * kDepth + i % kChunks * kRun;
        if (k >= weight.product.in) continue;
        const int64_t row = int64_t{tile} * kColumnTile + own_column;
        gpu::store16(out + row * weight.product.in + k,
                     gpu::load16(values + own_column * kStride + i % kChunks * kRun));
    }
}

void dequantize(const Context& context, const DequantizeCall& call, ops::WeightFormat code,
                DType compute_type) {
    const auto launch = [&](auto kernel) { gpu::launch(kernel, call.chunk.launch(context), call); };
    with_dense_format(code, [&](auto known) {
        constexpr ops::WeightFormat kCode = decltype(known)::kValue;
        if (compute_type == DType::bf16) {
            launch(dequantize_kernel<__nv_bfloat16, kCode>);
        } else {
            launch(dequantize_kernel<__half, kCode>);
        }
    });
}

bool can_dequantize_layout(int64_t tokens, const ops::QuantizedLayout& layout) {
    return tokens >= kMinDequantizeRows && !ops::is_sparse(layout.code) && layout.in % kRun == 0;
}

}  // namespace

int64_t chunk_columns(const ops::QuantizedLayout& layout, int64_t chunk_bytes,
                      int64_t value_bytes) {
    const int64_t row_bytes = layout.in * value_bytes;
    const int64_t fit = std::max<int64_t>(chunk_bytes / row_bytes / kColumnTile, 1) * kColumnTile;
    return std::min<int64_t>(fit, int64_t{blocks_for(layout.out, kColumnTile)} * kColumnTile);
}

bool can_dequantize(const ConstTensorView& x, const ops::QuantizedWeight& weight,
                    DType compute_type) {
    return can_dequantize_layout(x.dim(0), weight.layout) && compute_type != DType::f32 &&
           weight.activations.global_scale == 0.0f;
}

void dequantize_gemm(const Context& context, const ConstTensorView& x,
                     const ops::QuantizedWeight& weight, const ConstTensorView& bias,
                     DType compute_type, ops::MatmulOutput output, const TensorView& y,
                     const DenseGemm& dense, int64_t chunk_bytes) {
    if (y.numel() == 0) return;
    const ops::QuantizedLayout& layout = weight.layout;
    const int64_t at_once = chunk_columns(layout, chunk_bytes, 2);
    const ScratchArena::Scope scope(*context.scratch);
    DequantizeCall call{};
    call.chunk.weight = describe_weight(weight);
    call.values = context.scratch->take(static_cast<size_t>(at_once * layout.in) * 2);
    const ConstTensorView rows = takes_as_it_is(x, weight, compute_type)
                                     ? x
                                     : rounded_rows(context, x, weight, compute_type);
    if (context.is_dry_run()) return;
    for (int64_t first = 0; first < layout.out; first += at_once) {
        const int64_t columns = std::min(at_once, layout.out - first);
        call.chunk.take_columns(first, columns);
        dequantize(context, call, layout.code, compute_type);
        const ConstTensorView chunk(call.values, compute_type, {columns, layout.in}, x.device);
        const ConstTensorView chunk_bias =
            bias.data != nullptr ? bias.columns(first, columns) : ConstTensorView();
        dense(context, rows, chunk, chunk_bias, compute_type, output, y.columns(first, columns));
    }
}

}  // namespace nvllm::cuda
