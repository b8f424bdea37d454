// What the kernels of matmuls with quantized weights share. For .cu files only.
//
// Every output is one accumulator of sums, whatever tile it falls into: its bits do not depend on
// the rows beside it. The products of a group of weights (and of a group of x, where x has scales
// of groups) are summed by rising k, beginning with 0, or exactly where both are integers; that
// sum, times the scale or scales, joins the groups before it. Inexact sums of longer groups, but
// for those of sparse weights, are cut every kLongestSum k, so that warps can share them. At last
// come the factor, the scale of the row of x, y and the bias.
#pragma once

#include "kernels/cuda/matmul/matmul_tiles.h"
#include "kernels/cuda/quantized/packed_weights.h"

namespace nvllm::cuda {

constexpr int kLongestSum = 256;
// Products of -128 by -128 whose sum fits 32 bits.
constexpr int64_t kMaxIntegerTerms = (int64_t{1} << 17) - 1;

// A product, as plain data. x of `product`: rounded to the compute type, or quantized values as
// values of that type or as bytes in the order of place_of(); rows are whole runs of 16 bytes, and
// zero beyond `in`.
struct QuantizedCall {
    MatmulCall product;
    const void* x;
    int64_t x_stride;
    const unsigned char* packed;
    PackedQuantized parts;
    DType scale_type;
    bool has_zero_points;
    int group_size;         // at most `in`
    int sum_depth;          // k that are summed before they join the others: divides group_size
    int x_group_size;       // 0: no scales of groups
    const float* x_scales;  // [tokens, groups of x], or one a token; null: none
    int64_t x_scales_stride;
    float factor;

    // Beyond the last tile or unit, the last: its quantized values are not used.
    template <ops::WeightFormat code>
    __device__ __forceinline__ const unsigned char* codes(int tile, int unit) const {
        const auto last_tile = static_cast<int>(parts.columns / column_tile(code)) - 1;
        const auto last_unit = static_cast<int>(parts.units) - 1;
        tile = tile < last_tile ? tile : last_tile;
        unit = unit < last_unit ? unit : last_unit;
        return packed + (tile * parts.units + unit) * unit_bytes(code);
    }
    __device__ __forceinline__ float scale(int64_t group, int64_t column) const {
        return load_float(packed + parts.scales, scale_type, group * parts.columns + column);
    }
    __device__ __forceinline__ int zero_point(int64_t group, int64_t column) const {
        if (!has_zero_points) return 0;
        const auto* points = reinterpret_cast<const int8_t*>(packed + parts.zero_points);
        return points[group * parts.columns + column];
    }
    // Of a token and a group of x; 1 where scales are not those of groups.
    __device__ __forceinline__ float x_group_scale(int64_t token, int group) const {
        if (x_group_size == 0 || token >= product.tokens) return 1.0f;
        return x_scales[token * x_scales_stride + group];
    }
    __device__ __forceinline__ float finished(int64_t token, float total) const {
        total *= factor;
        const bool has_row_scale = x_scales != nullptr && x_group_size == 0;
        return has_row_scale && token < product.tokens ? total * x_scales[token * x_scales_stride]
                                                       : total;
    }
};

// The groups of weights and of x whose products are being summed, and where that sum ends, followed
// without a division: those of all steps of a kernel took more instructions than its products.
struct Groups {
    int weights = 0;  // number of the group
    int x = 0;
    int end;  // the first k behind the sum

    __device__ __forceinline__ explicit Groups(const QuantizedCall& call)
        : group_end_(call.group_size),
          sum_end_(call.sum_depth),
          x_end_(call.x_group_size > 0 ? call.x_group_size : INT32_MAX) {
        find_end(call);
    }
    // On to what lies behind `end`. REQUIRES: end < in.
    __device__ __forceinline__ void pass(const QuantizedCall& call) {
        const int passed = end;
        if (passed == group_end_) {
            ++weights;
            group_end_ += call.group_size;
        }
        if (passed == sum_end_) sum_end_ += call.sum_depth;
        if (passed == x_end_) {
            ++x;
            x_end_ += call.x_group_size;
        }
        find_end(call);
    }

  private:
    __device__ __forceinline__ void find_end(const QuantizedCall& call) {
        end = sum_end_ < x_end_ ? sum_end_ : x_end_;
        if (call.product.in < end) end = call.product.in;
    }

    int group_end_;
    int sum_end_;
    int x_end_;
};

// d += a b.
template <typename T>
__device__ __forceinline__ void multiply_fragments(float (&d)[4], const uint32_t (&a)[4],
                                                   const uint32_t (&b)[2]) {
    gpu::mma_m16n8k16<T>(d, a, b);
}
template <typename T>
__device__ __forceinline__ void multiply_fragments(int (&d)[4], const uint32_t (&a)[4],
                                                   const uint32_t (&b)[2]) {
    gpu::mma_m16n8k32<T>(d, a, b);
}

// Rows of x on their way through shared memory: stages of one unit's k, filled by cp.async, rows of
// 16-byte chunks XORed with the row so that ldmatrix meets no bank conflict.
template <typename T, int tokens, int depth, int threads>
struct RowStages {
    static constexpr int kStages = 3;
    static constexpr int kPerChunk = 16 / static_cast<int>(sizeof(T));
    static constexpr int kChunks = depth / kPerChunk;  // of a row
    static constexpr int kValues = tokens * depth;
    static constexpr size_t kBytes = sizeof(T) * kValues * kStages;

    // Eight rows' chunks of one number lie in different banks.
    static __device__ __forceinline__ int swizzled(int row, int chunk) {
        static_assert(kChunks == 4 || kChunks % 8 == 0);
        const int turn = kChunks == 4 ? row >> 1 & 3 : row & 7;
        return row * depth + (chunk ^ turn) * kPerChunk;
    }

    static __device__ __forceinline__ T* stage_at(T* memory, int unit) {
        return memory + unit % kStages * kValues;
    }

    // Starts the copy of x for a unit, which later waits count as one; what is beyond x's edges
    // becomes 0.
    static __device__ __forceinline__ void fill(const QuantizedCall& call, int first_token,
                                                int unit, T* memory) {
        if (unit < static_cast<int>(call.parts.units)) {
            const T* const x = static_cast<const T*>(call.x);
            T* const stage = stage_at(memory, unit);
#pragma unroll 4
            for (int i = static_cast<int>(threadIdx.x); i < tokens * kChunks; i += threads) {
                const int row = i / kChunks;
                const int chunk = i % kChunks;
                const int k = unit * depth + chunk * kPerChunk;
                const bool exists = first_token + row < call.product.tokens && k < call.product.in;
                const int64_t index = exists ? (first_token + row) * call.x_stride + k : 0;
                gpu::cp_async16(stage + swizzled(row, chunk), x + index, exists ? 16 : 0);
            }
        }
        gpu::cp_async_commit();
    }
};

// All units of a tile in turn: load(unit, codes) reads a unit's quantized values into registers,
// `ahead` units before multiply(unit, stage, codes) takes them.
template <typename Stages, typename Codes, int ahead, typename T, typename Load, typename Multiply>
__device__ __forceinline__ void run_units(const QuantizedCall& call, int first_token, T* memory,
                                          const Load& load, const Multiply& multiply) {
    constexpr int kStages = Stages::kStages;
    const auto num_units = static_cast<int>(call.parts.units);
#pragma unroll
    for (int unit = 0; unit < kStages - 1; ++unit) Stages::fill(call, first_token, unit, memory);
    Codes codes[ahead];
#pragma unroll
    for (int i = 0; i < ahead; ++i) load(i, codes[i]);
    for (int first_unit = 0; first_unit < num_units; first_unit += ahead) {
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            const int unit = first_unit + i;
            if (unit >= num_units) break;
            gpu::cp_async_wait<kStages - 2>();
            __syncthreads();
            // The stage that is filled was multiplied in the round before, which all have left.
            Stages::fill(call, first_token, unit + kStages - 1, memory);
            multiply(unit, Stages::stage_at(memory, unit), codes[i]);
            load(unit + ahead, codes[i]);
        }
    }
}

// The steps of a unit: multiply(step) for each, fold() behind the last k of a group, begin() before
// the first k of the next. Values of x beyond `in` are 0. Groups that do not end within the unit,
// which most do not, have a way without questions between the steps.
template <int depth, int step_depth, typename MultiplyStep, typename Fold, typename Begin>
__device__ __forceinline__ void multiply_unit(const QuantizedCall& call, int unit, Groups& groups,
                                              const MultiplyStep& multiply, const Fold& fold,
                                              const Begin& begin) {
    const int unit_end = (unit + 1) * depth;
    const auto end_group = [&] {
        fold();
        if (groups.end >= call.product.in) return;
        groups.pass(call);
        begin();
    };
    if (groups.end >= unit_end || groups.end >= call.product.in) {
#pragma unroll
        for (int step = 0; step < depth / step_depth; ++step) multiply(step);
        if (groups.end <= unit_end) end_group();
        return;
    }
#pragma unroll
    for (int step = 0; step < depth / step_depth; ++step) {
        multiply(step);
        if (unit * depth + (step + 1) * step_depth == groups.end) end_group();
    }
    const bool ends_within_step = call.product.in % step_depth != 0;
    if (ends_within_step && groups.end == call.product.in && groups.end < unit_end) fold();
}

// Blocks of Product::kColumns x Product::kTokens results.
template <typename Product>
void launch_tiles(const Context& context, void (*kernel)(QuantizedCall),
                  const QuantizedCall& call) {
    gpu::launch(kernel,
                gpu::Launch{.grid = {blocks_for(call.product.out, Product::kColumns),
                                     blocks_for(call.product.tokens, Product::kTokens)},
                            .block = {Product::kThreads},
                            .shared_bytes = Product::kSharedBytes,
                            .stream = context.stream,
                            .overlaps = true},
                call);
}

// Whether x is multiplied as it is.
bool takes_as_it_is(const ConstTensorView& x, const ops::QuantizedWeight& weight,
                    DType compute_type);
// x as its quantized values stand for it, scales included, as 16-bit values in scratch. REQUIRES:
// no global scale.
ConstTensorView rounded_rows(const Context& context, const ConstTensorView& x,
                             const ops::QuantizedWeight& weight, DType compute_type);

// A matrix as kernels read it; `product` has its `in` alone.
QuantizedCall describe_weight(const ops::QuantizedWeight& weight);

// Some tiles of columns of a matrix, taken apart by a warp for each unit, as plain data.
struct ColumnChunk {
    static constexpr int kWarps = 4;  // of a block

    QuantizedCall weight;
    int first_tile = 0;
    int tiles = 0;

    void take_columns(int64_t first, int64_t columns) {
        first_tile = static_cast<int>(first / kColumnTile);
        tiles = static_cast<int>(blocks_for(columns, kColumnTile));
    }
    gpu::Launch launch(const Context& context) const {
        return {.grid = {blocks_for(tiles * weight.parts.units, kWarps)},
                .block = {kWarps * 32},
                .stream = context.stream,
                .overlaps = true};
    }

    // This warp's tile of the chunk and unit of it; false beyond the last.
    __device__ __forceinline__ bool find(int& tile, int& unit) const {
        const auto units = static_cast<int>(weight.parts.units);
        const int64_t number = int64_t{blockIdx.x} * kWarps + gpu::warp_id();
        tile = static_cast<int>(number / units);
        unit = static_cast<int>(number % units);
        return tile < tiles;
    }
    // The sixteen bytes of quantized values that a lane has of such a unit.
    template <ops::WeightFormat code>
    __device__ __forceinline__ void load(int tile, int unit, uint32_t (&words)[4]) const {
        const uint4 chunk = gpu::load_streaming16(weight.codes<code>(first_tile + tile, unit) +
                                                  gpu::lane_id() * kChunkBytes);
        words[0] = chunk.x;
        words[1] = chunk.y;
        words[2] = chunk.z;
        words[3] = chunk.w;
    }
    // The matrix' column of a column of a tile of the chunk.
    __device__ __forceinline__ int64_t column(int tile, int of_tile) const {
        return int64_t{first_tile + tile} * kColumnTile + of_tile;
    }
};

// Quantized rows in float8 or int8, and what each row's are to be multiplied with.
struct QuantizedRows {
    ConstTensorView codes;
    const float* scales;
};
// x so, in scratch, in the order of k. REQUIRES: rounded to such quantized values with one scale a
// row.
QuantizedRows quantized_rows(const Context& context, const ConstTensorView& x,
                             const ops::QuantizedWeight& weight, DType codes);

// Whether there are at most kMaxGemvRows, and sums that warps can share. `operand`: the type of x
// in the call, i8 where it is multiplied by integers.
bool can_gemv_quantized(const QuantizedCall& call, ops::WeightFormat code, DType operand);
// REQUIRES: can_gemv_quantized().
void launch_gemv_quantized(const Context& context, const QuantizedCall& call,
                           ops::WeightFormat code, DType operand);
// The launches of matmul_quantized_tensor_cores.cu (x of bfloat16 or float16, or of one byte),
// matmul_quantized_simt.cu (x of float32) and matmul_sparse.cu (two of each four weights).
void launch_gemm_quantized_tensor_cores(const Context& context, const QuantizedCall& call,
                                        ops::WeightFormat code, DType compute_type);
void launch_gemm_quantized_integers(const Context& context, const QuantizedCall& call,
                                    ops::WeightFormat code);
void launch_gemm_quantized_simt(const Context& context, const QuantizedCall& call,
                                ops::WeightFormat code);
void launch_gemm_sparse(const Context& context, const QuantizedCall& call, ops::WeightFormat code,
                        DType compute_type);

// What two of each four keep, into packed quantized values; scales are packed as those of other
// quantized values.
void pack_sparse_values(const Context& context, const ops::QuantizedLayout& layout,
                        const ops::UnpackedQuantizedWeight& plain, unsigned char* packed);

}  // namespace nvllm::cuda
