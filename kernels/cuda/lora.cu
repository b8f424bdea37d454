// Adapters of rows on the GPU: the adapter that each row's slot names.
//
// Grid of shrink_kernel: rows, or tiles of eight rows where there are many, by 32 ranks of a part
// by parts; a warp takes four ranks, lanes runs of eight inputs each. A is read once a tile, 2
// bytes a value of bfloat16, and so is x once for four ranks, from the caches. Grid of
// expand_kernel: the same rows by 512 outputs of a part by parts; a thread takes eight outputs: 2
// bytes a value of B in bfloat16, 4 bytes an output of y. No shared memory. Rows of a tile that
// have other adapters than each other are computed one by one. Which lane adds which values depends
// on the linear alone.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/elements.h"
#include "kernels/ops/lora.h"

namespace nvllm::cuda {
namespace {

constexpr int kTile = 8;            // rows that share what is read of an adapter
constexpr int64_t kManyRows = 256;  // from here on there are blocks enough with tiles
constexpr int kShrinkWarps = 8;
constexpr int kRanksOfWarp = 4;
constexpr int kRanksOfBlock = kShrinkWarps * kRanksOfWarp;
constexpr int kExpandThreads = 64;
constexpr int kColumnsOfBlock = kExpandThreads * kRun;

// body(Element<T>{}) for the type of an adapter's matrices.
template <typename Body>
__device__ __forceinline__ void with_type_of(const ops::LoraPair& pair, const Body& body) {
    if (pair.dtype == DType::bf16) return body(Element<__nv_bfloat16>{});
    if (pair.dtype == DType::f16) return body(Element<__half>{});
    body(Element<float>{});
}

// body(first, Count<rows>{}) for all rows of the block's tile at once where they have one slot,
// else for each by itself.
template <int count>
struct Count {
    static constexpr int kRows = count;
};
template <int tile, typename Body>
__device__ __forceinline__ void for_rows_of_tile(const int32_t* __restrict__ slots, int64_t tokens,
                                                 const Body& body) {
    const int64_t first = int64_t{blockIdx.x} * tile;
    if constexpr (tile > 1) {
        bool is_one = first + tile <= tokens;
        for (int i = 1; i < tile && is_one; ++i) is_one = slots[first + i] == slots[first];
        if (is_one) return body(first, Count<tile>{});
    }
    for (int i = 0; i < tile && first + i < tokens; ++i) body(first + i, Count<1>{});
}

__device__ __forceinline__ const ops::LoraPair* pair_of(const ops::LoraLinear& linear, int32_t slot,
                                                        int64_t part) {
    if (slot == 0) return nullptr;
    const ops::LoraPair* const pair = linear.pairs + (slot - 1) * linear.parts + part;
    return pair->out == 0 ? nullptr : pair;
}

__device__ __forceinline__ int64_t inner_offset(const ops::LoraLinear& linear, int64_t row,
                                                int64_t part) {
    return (row * linear.parts + part) * linear.max_rank;
}

// Four ranks from `rank` on of `rows` rows from `row` on, by one warp.
template <int rows, typename T, typename W>
__device__ __forceinline__ void shrink(const Rows<const T>& x, const ops::LoraPair& pair,
                                       int64_t row, int64_t rank, float* __restrict__ inner,
                                       int64_t inner_stride) {
    const int64_t in = x.layout.width;
    const W* const a = static_cast<const W*>(pair.a) + rank * in;
    const bool aligned = in % kRun == 0;
    float sums[rows][kRanksOfWarp] = {};
    for (int64_t k = int64_t{gpu::lane_id()} * kRun; k < in; k += 32 * kRun) {
        float weights[kRanksOfWarp][kRun];
#pragma unroll
        for (int j = 0; j < kRanksOfWarp; ++j) {
            if (rank + j < pair.rank) load_run(a + j * in + k, in - k, aligned, weights[j]);
        }
#pragma unroll
        for (int i = 0; i < rows; ++i) {
            float values[kRun];
            x.load(row + i, k, in - k, values);
#pragma unroll
            for (int j = 0; j < kRanksOfWarp; ++j) {
                if (rank + j >= pair.rank) continue;
#pragma unroll
                for (int n = 0; n < kRun; ++n) {
                    sums[i][j] = gpu::fma(values[n], weights[j][n], sums[i][j]);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) {
#pragma unroll
        for (int j = 0; j < kRanksOfWarp; ++j) {
            const float sum = gpu::warp_sum(sums[i][j]);
            if (gpu::lane_id() != 0 || rank + j >= pair.rank) continue;
            inner[i * inner_stride + rank + j] = pair.scale * sum;
        }
    }
}

template <int tile, typename T>
__global__ void __launch_bounds__(32 * kShrinkWarps)
    shrink_kernel(Rows<const T> x, const int32_t* __restrict__ slots, ops::LoraLinear linear,
                  float* __restrict__ inner) {
    gpu::wait_for_work_before();
    const int64_t part = blockIdx.z;
    const int64_t rank = int64_t{blockIdx.y} * kRanksOfBlock + gpu::warp_id() * kRanksOfWarp;
    for_rows_of_tile<tile>(slots, x.layout.count, [&](int64_t row, auto count) {
        const ops::LoraPair* const pair = pair_of(linear, slots[row], part);
        if (pair == nullptr || rank >= pair->rank) return;
        with_type_of(*pair, [&](auto element) {
            using W = typename decltype(element)::Type;
            shrink<decltype(count)::kRows, T, W>(x, *pair, row, rank,
                                                 inner + inner_offset(linear, row, part),
                                                 linear.parts * linear.max_rank);
        });
    });
}

// Eight outputs of `rows` rows from `row` on.
template <int rows, typename T, typename W>
__device__ __forceinline__ void expand(const float* __restrict__ inner, int64_t inner_stride,
                                       const ops::LoraPair& pair, int64_t row, int64_t column,
                                       const Rows<T>& y) {
    const int64_t left = pair.out - column;
    const bool aligned = pair.out % kRun == 0;
    float sums[rows][kRun] = {};
    if (pair.bias != nullptr) {
        float bias[kRun];
        load_run(pair.bias + column, left, aligned, bias);
#pragma unroll
        for (int i = 0; i < rows; ++i) {
#pragma unroll
            for (int n = 0; n < kRun; ++n) sums[i][n] = bias[n];
        }
    }
    const W* const b = static_cast<const W*>(pair.b) + column;
    for (int rank = 0; rank < pair.rank; ++rank) {
        float weights[kRun];
        load_run(b + rank * pair.out, left, aligned, weights);
#pragma unroll
        for (int i = 0; i < rows; ++i) {
            const float factor = inner[i * inner_stride + rank];
#pragma unroll
            for (int n = 0; n < kRun; ++n) sums[i][n] = gpu::fma(factor, weights[n], sums[i][n]);
        }
    }
    const bool y_aligned = aligned && y.layout.aligned && pair.first_column % kRun == 0;
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        T* const to = y.row(row + i) + pair.first_column + column;
        float values[kRun];
        load_run(to, left, y_aligned, values);
#pragma unroll
        for (int n = 0; n < kRun; ++n) values[n] += sums[i][n];
        store_run(to, left, y_aligned, values);
    }
}

template <int tile, typename T>
__global__ void __launch_bounds__(kExpandThreads)
    expand_kernel(const float* __restrict__ inner, const int32_t* __restrict__ slots,
                  ops::LoraLinear linear, Rows<T> y) {
    gpu::wait_for_work_before();
    const int64_t part = blockIdx.z;
    const int64_t column = int64_t{blockIdx.y} * kColumnsOfBlock + threadIdx.x * kRun;
    for_rows_of_tile<tile>(slots, y.layout.count, [&](int64_t row, auto count) {
        const ops::LoraPair* const pair = pair_of(linear, slots[row], part);
        if (pair == nullptr || column >= pair->out) return;
        with_type_of(*pair, [&](auto element) {
            using W = typename decltype(element)::Type;
            expand<decltype(count)::kRows, T, W>(inner + inner_offset(linear, row, part),
                                                 linear.parts * linear.max_rank, *pair, row, column,
                                                 y);
        });
    });
}

__global__ void __launch_bounds__(kMaxThreads)
    expert_slots_kernel(const int32_t* __restrict__ slots, const int32_t* __restrict__ experts,
                        const int32_t* __restrict__ order, int count, int per_token,
                        int num_experts, int32_t* __restrict__ out) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count) return;
    const int choice = order[i];
    const int slot = slots[choice / per_token];
    out[i] = slot == 0 ? 0 : (slot - 1) * num_experts + experts[choice] + 1;
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    select_kernel(Rows<const T> x, const int32_t* __restrict__ slots, int32_t slot, Rows<T> y) {
    for_my_run(x.layout, [&](int64_t row, int64_t column, int64_t count) {
        if (slots[row] != slot) return;
        float values[kRun];
        x.load(row, column, count, values);
        y.store(row, column, count, values);
    });
}

// body(Count<rows of a tile>{}).
template <typename Body>
void with_tile(int64_t rows, const Body& body) {
    if (rows >= kManyRows) return body(Count<kTile>{});
    body(Count<1>{});
}

}  // namespace

void lora_shrink(const Context& context, const ConstTensorView& x, const ConstTensorView& slots,
                 const ops::LoraLinear& linear, const TensorView& inner) {
    if (context.is_dry_run() || x.dim(0) == 0) return;
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        with_tile(x.dim(0), [&](auto tile) {
            constexpr int kRows = decltype(tile)::kRows;
            gpu::launch(shrink_kernel<kRows, T>,
                        gpu::Launch{.grid = {blocks_for(x.dim(0), kRows),
                                             blocks_for(linear.max_rank, kRanksOfBlock),
                                             static_cast<uint32_t>(linear.parts)},
                                    .block = {32 * kShrinkWarps},
                                    .stream = context.stream,
                                    .overlaps = true},
                        rows_of<T>(x), slots.as<int32_t>(), linear, inner.as<float>());
        });
    });
}

void lora_expand(const Context& context, const ConstTensorView& inner, const ConstTensorView& slots,
                 const ops::LoraLinear& linear, const TensorView& y) {
    if (context.is_dry_run() || y.dim(0) == 0) return;
    with_float_type(y.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        with_tile(y.dim(0), [&](auto tile) {
            constexpr int kRows = decltype(tile)::kRows;
            gpu::launch(expand_kernel<kRows, T>,
                        gpu::Launch{.grid = {blocks_for(y.dim(0), kRows),
                                             blocks_for(y.dim(1), kColumnsOfBlock),
                                             static_cast<uint32_t>(linear.parts)},
                                    .block = {kExpandThreads},
                                    .stream = context.stream,
                                    .overlaps = true},
                        inner.as<float>(), slots.as<int32_t>(), linear, rows_of<T>(y));
        });
    });
}

void lora_expert_slots(const Context& context, const ConstTensorView& slots,
                       const ConstTensorView& experts, const ConstTensorView& order,
                       int64_t num_experts, const TensorView& out) {
    if (order.dim(0) == 0) return;
    gpu::launch(expert_slots_kernel,
                gpu::Launch{.grid = {blocks_for(order.dim(0), kMaxThreads)},
                            .block = {kMaxThreads},
                            .stream = context.stream},
                slots.as<int32_t>(), experts.as<int32_t>(), order.as<int32_t>(),
                static_cast<int>(order.dim(0)), static_cast<int>(experts.dim(1)),
                static_cast<int>(num_experts), out.as<int32_t>());
}

void lora_select(const Context& context, const ConstTensorView& x, const ConstTensorView& slots,
                 int32_t slot, const TensorView& y) {
    if (context.is_dry_run()) return;
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        const Rows<const T> rows = rows_of<T>(x);
        launch_over_runs(context, select_kernel<T>, rows.layout, rows, slots.as<int32_t>(), slot,
                         rows_of<T>(y));
    });
}

}  // namespace nvllm::cuda
