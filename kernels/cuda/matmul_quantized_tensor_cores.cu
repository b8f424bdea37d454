// Products with quantized weights on tensor cores: codes are widened in registers to x's type,
// bfloat16 or float16, and summed in float32; or both factors are integers of one byte, whose sums
// are exact.
//
// Grid: [columns, tokens] in tiles of 64 x 64 with four warps, or 32 columns x 16 tokens for at
// most 16. A warp has its own columns: it reads their codes straight from global memory into
// registers, 512 bytes at a time and several units ahead of their use, each once for the tokens of
// a tile. x goes by cp.async through shared memory (3 to 48 KiB), stages of one unit's k, rows of
// 16-byte chunks XORed with the row so that ldmatrix meets no bank conflict.
#include <type_traits>

#include "kernels/cuda/quantized_tiles.h"
#include "kernels/error.h"

namespace nvllm::cuda {
namespace {

constexpr int kStages = 3;

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

template <typename T, ops::WeightCode code, int token_tiles, int column_tiles, int warps,
          int units_ahead>
struct QuantizedProduct {
    static constexpr int kThreads = warps * 32;
    static constexpr int kTokens = token_tiles * 16;
    static constexpr int kDepth = unit_depth(code);
    static constexpr int kStep = kProductDepth<T>;
    static constexpr int kSteps = kDepth / kStep;
    static constexpr int kPerChunk = kStep / 2;
    static constexpr int kChunks = kDepth / kPerChunk;  // of a row of a stage
    static constexpr int kStageValues = kTokens * kDepth;
    static constexpr size_t kSharedBytes = sizeof(T) * kStageValues * kStages;
    static constexpr int kColumns = warps * column_tiles * kColumnTile;

    template <typename Number>
    using Tile = Number[token_tiles][column_tiles][4];
    using Sums = Tile<std::conditional_t<sizeof(T) == 1, int, float>>;
    using Totals = Tile<float>;
    using Units = uint32_t[column_tiles][4];

    // Eight rows' chunks of one number lie in different banks.
    static __device__ __forceinline__ int swizzled(int row, int chunk) {
        static_assert(kChunks == 4 || kChunks % 8 == 0);
        const int turn = kChunks == 4 ? row >> 1 & 3 : row & 7;
        return row * kDepth + (chunk ^ turn) * kPerChunk;
    }

    // Starts the copy of x for a unit; what is beyond its edges becomes 0.
    static __device__ __forceinline__ void fill_stage(const QuantizedCall& call, int first_token,
                                                      int unit, T* stage) {
        const T* const x = static_cast<const T*>(call.x);
#pragma unroll 4
        for (int i = static_cast<int>(threadIdx.x); i < kTokens * kChunks; i += kThreads) {
            const int row = i / kChunks;
            const int chunk = i % kChunks;
            const int k = unit * kDepth + chunk * kPerChunk;
            const bool exists = first_token + row < call.product.tokens && k < call.product.in;
            const int64_t index = exists ? (first_token + row) * call.x_stride + k : 0;
            gpu::cp_async16(stage + swizzled(row, chunk), x + index, exists ? 16 : 0);
        }
    }

    // This lane's codes of a unit; beyond the last unit or tile, of the last: nobody uses them.
    static __device__ __forceinline__ void load_unit(const QuantizedCall& call, int first_tile,
                                                     int unit, Units& words) {
        const auto last_tile = static_cast<int>(call.parts.columns / kColumnTile) - 1;
        const auto last_unit = static_cast<int>(call.parts.units) - 1;
#pragma unroll
        for (int j = 0; j < column_tiles; ++j) {
            const int tile = first_tile + j < last_tile ? first_tile + j : last_tile;
            const uint4 chunk =
                gpu::load_streaming16(call.codes(tile, unit < last_unit ? unit : last_unit) +
                                      gpu::lane_id() * kChunkBytes);
            words[j][0] = chunk.x;
            words[j][1] = chunk.y;
            words[j][2] = chunk.z;
            words[j][3] = chunk.w;
        }
    }

    static __device__ __forceinline__ void multiply_step(const T* stage, const Units& words,
                                                         int step,
                                                         const int (&zero_points)[column_tiles],
                                                         Sums& sums) {
        const int lane = gpu::lane_id();
        uint32_t a[token_tiles][4];
#pragma unroll
        for (int i = 0; i < token_tiles; ++i) {
            gpu::ldmatrix_x4(a[i], stage + swizzled(16 * i + (lane & 15), 2 * step + (lane >> 4)));
        }
#pragma unroll
        for (int j = 0; j < column_tiles; ++j) {
            uint32_t b[2];
            Widen<T, code>::fragment(words[j], step, zero_points[j], b);
#pragma unroll
            for (int i = 0; i < token_tiles; ++i) multiply_fragments<T>(sums[i][j], a[i], b);
        }
    }

    // The sums of a group join the totals and begin anew.
    static __device__ __forceinline__ void fold(const QuantizedCall& call, int first_token,
                                                int first_tile, int k, Sums& sums, Totals& totals) {
        const int group = k / call.group_size;
#pragma unroll
        for (int j = 0; j < column_tiles; ++j) {
            const int64_t column = (first_tile + j) * kColumnTile + 2 * (gpu::lane_id() & 3);
            if (column >= call.parts.columns) continue;
            const float scales[2] = {call.scale(group, column), call.scale(group, column + 1)};
#pragma unroll
            for (int i = 0; i < token_tiles; ++i) {
#pragma unroll
                for (int v = 0; v < 4; ++v) {
                    const int token = first_token + 16 * i + (gpu::lane_id() >> 2) + 8 * (v >> 1);
                    const float scale = scales[v & 1] * call.x_group_scale(token, k);
                    const auto sum = static_cast<float>(sums[i][j][v]);
                    totals[i][j][v] = gpu::fma(sum, scale, totals[i][j][v]);
                    sums[i][j][v] = 0;
                }
            }
        }
    }

    static __device__ __forceinline__ void load_zero_points(const QuantizedCall& call,
                                                            int first_tile, int k,
                                                            int (&points)[column_tiles]) {
        const int group = k / call.group_size;
#pragma unroll
        for (int j = 0; j < column_tiles; ++j) {
            const int64_t column = (first_tile + j) * kColumnTile + (gpu::lane_id() >> 2);
            points[j] = column < call.parts.columns ? call.zero_point(group, column) : 0;
        }
    }

    static __device__ __forceinline__ void write(const QuantizedCall& call, int first_token,
                                                 int first_tile, const Totals& totals) {
        const int lane = gpu::lane_id();
#pragma unroll
        for (int i = 0; i < token_tiles; ++i) {
#pragma unroll
            for (int j = 0; j < column_tiles; ++j) {
                const int column = (first_tile + j) * kColumnTile + 2 * (lane & 3);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int token = first_token + 16 * i + (lane >> 2) + 8 * half;
                    write_pair(call.product, call.product.tokens, token, column,
                               call.finished(token, totals[i][j][2 * half]),
                               call.finished(token, totals[i][j][2 * half + 1]));
                }
            }
        }
    }

    static __device__ void run(const QuantizedCall& call, T* memory) {
        const int first_token = static_cast<int>(blockIdx.y) * kTokens;
        const int first_tile =
            (static_cast<int>(blockIdx.x) * warps + gpu::warp_id()) * column_tiles;
        const auto num_units = static_cast<int>(call.parts.units);
        const auto stage_at = [&](int unit) { return memory + unit % kStages * kStageValues; };
#pragma unroll
        for (int unit = 0; unit < kStages - 1; ++unit) {
            if (unit < num_units) fill_stage(call, first_token, unit, stage_at(unit));
            gpu::cp_async_commit();
        }
        Units ahead[units_ahead];
#pragma unroll
        for (int i = 0; i < units_ahead; ++i) load_unit(call, first_tile, i, ahead[i]);
        Sums sums = {};
        Totals totals = {};
        int zero_points[column_tiles];
        load_zero_points(call, first_tile, 0, zero_points);
        int border = call.next_border(0);
        for (int first_unit = 0; first_unit < num_units; first_unit += units_ahead) {
#pragma unroll
            for (int i = 0; i < units_ahead; ++i) {
                const int unit = first_unit + i;
                if (unit >= num_units) break;
                gpu::cp_async_wait<kStages - 2>();
                __syncthreads();
                // The stage that is filled was multiplied in the round before, which all have left.
                const int next = unit + kStages - 1;
                if (next < num_units) fill_stage(call, first_token, next, stage_at(next));
                gpu::cp_async_commit();
#pragma unroll
                for (int step = 0; step < kSteps; ++step) {
                    const int end = unit * kDepth + (step + 1) * kStep;
                    if (end - kStep >= call.product.in) break;
                    multiply_step(stage_at(unit), ahead[i], step, zero_points, sums);
                    if (end < border) continue;
                    fold(call, first_token, first_tile, border - 1, sums, totals);
                    if (border >= call.product.in) break;
                    if (call.has_zero_points) {
                        load_zero_points(call, first_tile, border, zero_points);
                    }
                    border = call.next_border(border);
                }
                load_unit(call, first_tile, unit + units_ahead, ahead[i]);
            }
        }
        write(call, first_token, first_tile, totals);
    }
};

template <typename T, ops::WeightCode code, int token_tiles, int column_tiles, int warps,
          int units_ahead>
__global__ void __launch_bounds__(warps * 32, kAnyOccupancy)
    matmul_quantized_kernel(QuantizedCall call) {
    GPU_DYNAMIC_SHARED(T, memory);
    QuantizedProduct<T, code, token_tiles, column_tiles, warps, units_ahead>::run(call, memory);
}

template <typename T, ops::WeightCode code, int token_tiles, int column_tiles, int warps,
          int units_ahead>
void launch_product(const Context& context, const QuantizedCall& call) {
    using Product = QuantizedProduct<T, code, token_tiles, column_tiles, warps, units_ahead>;
    gpu::launch(matmul_quantized_kernel<T, code, token_tiles, column_tiles, warps, units_ahead>,
                gpu::Launch{.grid = {blocks_for(call.product.out, Product::kColumns),
                                     blocks_for(call.product.tokens, Product::kTokens)},
                            .block = {Product::kThreads},
                            .shared_bytes = Product::kSharedBytes,
                            .stream = context.stream},
                call);
}

// Few tokens: memory is the limit, and many small blocks keep more bytes under way. Many: each
// widened code serves 64 tokens.
template <typename T, ops::WeightCode code>
void launch_product(const Context& context, const QuantizedCall& call) {
    if (call.product.tokens <= 16) {
        launch_product<T, code, 1, 1, 4, 4>(context, call);
    } else {
        launch_product<T, code, 4, 2, 4, 2>(context, call);
    }
}

template <typename T>
void launch_product(const Context& context, const QuantizedCall& call, ops::WeightCode code) {
    switch (code) {
        case ops::WeightCode::int4:
            return launch_product<T, ops::WeightCode::int4>(context, call);
        case ops::WeightCode::int8:
            return launch_product<T, ops::WeightCode::int8>(context, call);
        case ops::WeightCode::float4:
            return launch_product<T, ops::WeightCode::float4>(context, call);
        case ops::WeightCode::float8:
            return launch_product<T, ops::WeightCode::float8>(context, call);
        default:
            NVLLM_CHECK(false, "can_multiply_quantized() says which codes there are");
    }
}

}  // namespace

void multiply_quantized_on_tensor_cores(const Context& context, const QuantizedCall& call,
                                        ops::WeightCode code, DType product_type) {
    if (product_type == DType::bf16) {
        launch_product<__nv_bfloat16>(context, call, code);
    } else {
        launch_product<__half>(context, call, code);
    }
}

void multiply_integers_on_tensor_cores(const Context& context, const QuantizedCall& call,
                                       ops::WeightCode code) {
    if (code == ops::WeightCode::int4) {
        launch_product<int8_t, ops::WeightCode::int4>(context, call);
    } else {
        launch_product<int8_t, ops::WeightCode::int8>(context, call);
    }
}

}  // namespace nvllm::cuda
