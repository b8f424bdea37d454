// Products of many rows with quantized weights, quantized by quantized.
//
// unpack_kernel: a warp for each unit of packed quantized values, four in a block. Lanes have
// quantized values of a column two by two (packed_weights.h), so they go through shared memory, 2.5
// KiB a block, to be written 16 bytes at a time; each is read and written once. finish_kernel: a
// thread for eight sums of integers, which are read once, in part from the second-level cache, and
// written once as values of y.
#include "kernels/cuda/quantized/scaled_mm.h"

#include <algorithm>
#include <optional>

#include "kernels/cuda/matmul/matmul_selection.h"
#include "kernels/cuda/quantized/packed_weights.h"
#include "kernels/cuda/quantized/quantized_tiles.h"

namespace nvllm::cuda {
namespace {

constexpr int kThreads = 256;

// A chunk on its way to quantized values [columns, in] and scales [columns], as plain data.
struct UnpackCall {
    ColumnChunk chunk;
    unsigned char* codes;
    float* scales;
};

template <ops::WeightFormat code>
__global__ void __launch_bounds__(ColumnChunk::kWarps * 32) unpack_kernel(UnpackCall call) {
    gpu::wait_for_work_before();
    constexpr int kDepth = unit_depth(code);
    constexpr int kChunks = kDepth / 16;  // of a column: one for each lane
    static_assert(kChunks * kColumnTile == 32);
    constexpr int kStride = kDepth + 16;
    GPU_SHARED(unsigned char, memory, [ColumnChunk::kWarps][kColumnTile * kStride]);
    const QuantizedCall& weight = call.chunk.weight;
    int tile;
    int unit;
    if (!call.chunk.find(tile, unit)) return;
    const int lane = gpu::lane_id();
    const int column = lane / kChunks;
    uint32_t words[4];
    call.chunk.load<code>(tile, unit, words);
    constexpr uint32_t kAbove =
        code == ops::WeightFormat::int8 ? 0x80808080u : 0;  // of stored ones
    unsigned char* const codes = memory[gpu::warp_id()];
#pragma unroll
    for (int step = 0; step < kDepth / kStepDepth; ++step) {
        unsigned char* const to = codes + column * kStride + step * kStepDepth;
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            const auto pair = static_cast<uint16_t>((words[step] ^ kAbove) >> (8 * i));
            memcpy(to + k_of(lane, i), &pair, 2);
        }
    }
    gpu::sync_warp();
    const int64_t row = int64_t{tile} * kColumnTile + column;
    const int k = unit * kDepth + lane % kChunks * 16;
    if (k < weight.product.in) {
        gpu::store16(call.codes + row * weight.product.in + k,
                     gpu::load16(codes + column * kStride + lane % kChunks * 16));
    }
    if (unit == 0 && lane % kChunks == 0) {
        call.scales[row] = weight.scale(0, call.chunk.column(tile, column)) * weight.factor;
    }
}

// Sums of integers on their way to y, as plain data.
struct FinishCall {
    const int32_t* sums;  // [tokens, sums_stride]: whole runs
    int64_t sums_stride;
    const float* x_scales;
    const float* weight_scales;  // of whole runs
    const void* bias;            // null: none
    DType bias_type;
    void* y;
    int64_t y_stride;
    bool y_aligned;  // as a RowLayout is
    int64_t tokens;
    int64_t columns;
    bool accumulate;
};

template <typename T>
__global__ void __launch_bounds__(kThreads) finish_kernel(FinishCall call) {
    gpu::wait_for_work_before();
    const int64_t runs = call.sums_stride / kRun;
    const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
    const int64_t token = index / runs;
    if (token >= call.tokens) return;
    const int64_t column = index % runs * kRun;
    const int64_t left = call.columns - column;
    float weights[kRun];
    float values[kRun];
    load_run(call.weight_scales + column, kRun, true, weights);
    const float x_scale = call.x_scales[token];
    const int32_t* const sums = call.sums + token * call.sums_stride + column;
#pragma unroll
    for (int i = 0; i < kRun; i += 4) {
        const uint4 four = gpu::load16(sums + i);
        const uint32_t each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const auto sum = static_cast<float>(static_cast<int32_t>(each[j]));
            values[i + j] = sum * weights[i + j] * x_scale;
        }
    }
    T* const y = static_cast<T*>(call.y) + token * call.y_stride + column;
    if (call.accumulate) {
        float before[kRun];
        load_run(y, left, call.y_aligned, before);
#pragma unroll
        for (int i = 0; i < kRun; ++i) values[i] += before[i];
    }
    if (call.bias != nullptr) {
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            if (i < left) values[i] += load_float(call.bias, call.bias_type, column + i);
        }
    }
    store_run(y, left, call.y_aligned, values);
}

// As what weights, and x, are multiplied: float8 or int8; none: no scaled_mm.
std::optional<DType> scaled_mm_type(const ops::QuantizedLayout& layout) {
    if (layout.groups() > 1 || layout.in % 16 != 0) return std::nullopt;
    if (layout.code == ops::WeightFormat::float8) return DType::f8_e4m3;
    const bool fits = layout.in <= kMaxIntegerTerms && !layout.has_zero_points;
    if (layout.code == ops::WeightFormat::int8 && fits) return DType::i8;
    return std::nullopt;
}

bool are_many(int64_t tokens, DType codes) {
    return tokens >= (codes == DType::i8 ? kMinScaledMmIntegerRows : kMinScaledMmRows);
}

bool rounds_to(const ops::ActivationRounding& rounding, DType codes) {
    const bool has_row_scale =
        rounding.group_size == 0 && !rounding.powers_of_two && rounding.global_scale == 0.0f;
    const ops::ActivationFormat code =
        codes == DType::i8 ? ops::ActivationFormat::int8 : ops::ActivationFormat::float8;
    return has_row_scale && rounding.code == code;
}

int64_t whole_runs(int64_t columns) { return int64_t{blocks_for(columns, kRun)} * kRun; }

// Columns of a chunk, whole tiles, and whole sixteens where there are so many.
int64_t columns_at_once(int64_t tokens, const ops::QuantizedLayout& layout, int64_t chunk_bytes) {
    int64_t columns = chunk_columns(layout, chunk_bytes, 1);
    if (scaled_mm_type(layout) == DType::i8) {
        const int64_t sums = chunk_bytes / 4 / tokens / kColumnTile * kColumnTile;
        columns = std::min(columns, std::max<int64_t>(sums, kColumnTile));
    }
    return columns > 16 ? columns / 16 * 16 : columns;
}

// A product with columns [first, first + columns), its chunk's.
ScaledMmArgs part_of(const ScaledMmArgs& all, int64_t first, int64_t columns) {
    ScaledMmArgs part = all;
    part.weight = all.weight.rows(0, columns);
    if (all.bias.data != nullptr) part.bias = all.bias.columns(first, columns);
    part.y = all.y.columns(first, columns);
    return part;
}

// The same as a product of integers alone, whose sums a kernel finishes.
ScaledMmArgs sums_of(const ScaledMmArgs& part, int32_t* sums) {
    ScaledMmArgs of_integers = part;
    const int64_t columns = part.weight.dim(0);
    const TensorView all(sums, DType::i32, {part.x.dim(0), whole_runs(columns)}, part.x.device);
    of_integers.y = all.columns(0, columns);
    of_integers.bias = {};
    of_integers.output = ops::MatmulOutput::overwrite;
    of_integers.x_scales = nullptr;
    of_integers.weight_scales = nullptr;
    return of_integers;
}

void finish(const Context& context, const ScaledMmArgs& part, const int32_t* sums) {
    FinishCall call{};
    call.sums = sums;
    call.columns = part.weight.dim(0);
    call.sums_stride = whole_runs(call.columns);
    call.x_scales = part.x_scales;
    call.weight_scales = part.weight_scales;
    call.bias = part.bias.data;
    call.bias_type = part.bias.dtype;
    call.y = part.y.data;
    call.y_stride = part.y.stride(0);
    call.y_aligned = row_layout(part.y).aligned;
    call.tokens = part.x.dim(0);
    call.accumulate = part.output == ops::MatmulOutput::accumulate;
    with_float_type(part.y.dtype, [&](auto element) {
        gpu::launch(
            finish_kernel<typename decltype(element)::Type>,
            gpu::Launch{.grid = {blocks_for(call.tokens * (call.sums_stride / kRun), kThreads)},
                        .block = {kThreads},
                        .stream = context.stream,
                        .overlaps = true},
            call);
    });
}

void unpack(const Context& context, const UnpackCall& call, DType codes) {
    const gpu::Launch launch = call.chunk.launch(context);
    if (codes == DType::i8) {
        gpu::launch(unpack_kernel<ops::WeightFormat::int8>, launch, call);
    } else {
        gpu::launch(unpack_kernel<ops::WeightFormat::float8>, launch, call);
    }
}

}  // namespace

bool can_scaled_mm(const ConstTensorView& x, const ops::QuantizedWeight& weight) {
    const std::optional<DType> codes = scaled_mm_type(weight.layout);
    return codes && are_many(x.dim(0), *codes) && rounds_to(weight.activations, *codes);
}

bool scaled_mm(const Context& context, const ConstTensorView& x, const ops::QuantizedWeight& weight,
               const ConstTensorView& bias, ops::MatmulOutput output, const TensorView& y,
               const ScaledMmLibrary& library, int64_t chunk_bytes) {
    const ops::QuantizedLayout& layout = weight.layout;
    const int64_t tokens = x.dim(0);
    const std::optional<DType> codes = scaled_mm_type(layout);
    const int64_t at_once = std::min(columns_at_once(tokens, layout, chunk_bytes), layout.out);
    const ScratchArena::Scope scope(*context.scratch);
    const auto room = static_cast<size_t>(whole_runs(at_once));
    UnpackCall call{};
    call.chunk.weight = describe_weight(weight);
    call.codes = context.scratch->take_array<unsigned char>(room * static_cast<size_t>(layout.in));
    call.scales = context.scratch->take_array<float>(room);
    int32_t* const sums =
        codes == DType::i8
            ? context.scratch->take_array<int32_t>(room * static_cast<size_t>(tokens))
            : nullptr;
    if (context.is_dry_run()) {
        quantized_rows(context, x, weight, *codes);
        return false;
    }
    ScaledMmArgs product{};
    // Whether a library takes such quantized values does not depend on where those of x lie.
    product.x = ConstTensorView(call.codes, *codes, {tokens, layout.in}, x.device);
    product.weight = ConstTensorView(call.codes, *codes, {at_once, layout.in}, x.device);
    product.weight_scales = call.scales;
    product.bias = bias;
    product.output = output;
    product.y = y;
    const auto as_multiplied = [&](int64_t first, int64_t columns) {
        const ScaledMmArgs part = part_of(product, first, columns);
        return sums != nullptr ? sums_of(part, sums) : part;
    };
    const int64_t rest = layout.out % at_once;
    if (!library.takes(context, as_multiplied(0, at_once))) return false;
    if (rest > 0 && !library.takes(context, as_multiplied(layout.out - rest, rest))) return false;
    const QuantizedRows rows = quantized_rows(context, x, weight, *codes);
    product.x = rows.codes;
    product.x_scales = rows.scales;
    for (int64_t first = 0; first < layout.out; first += at_once) {
        const int64_t columns = std::min(at_once, layout.out - first);
        call.chunk.take_columns(first, columns);
        unpack(context, call, *codes);
        library.multiply(context, as_multiplied(first, columns));
        if (sums != nullptr) finish(context, part_of(product, first, columns), sums);
    }
    return true;
}

}  // namespace nvllm::cuda
