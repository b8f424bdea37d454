// Matmuls of bfloat16 or float16 on tensor cores, sums in float32.
//
// Grid: [columns, tokens] in tiles of 128 x 128 with eight warps, 64 x 64 with four where there are
// at most 64 tokens, or 32 columns x 16 tokens with two for at most 16: then memory is the limit,
// and many small blocks keep more bytes under way. Shared memory: stages of 64 k of both factors
// (96, 64 and 24 KiB), rows of 16-byte chunks XORed with the row so that ldmatrix meets no bank
// conflict; while one stage is multiplied the next ones are on their way by cp.async. Each weight
// is read once for the tokens of a tile, each value of x once for its columns.
//
// An output's products join its sum 16 k at a time, in ascending order, in every tile shape.
#include "kernels/cuda/matmul/matmul_tiles.h"

namespace nvllm::cuda {
namespace {

constexpr int kDepth = 64;              // k of a stage
constexpr int kChunks = kDepth / kRun;  // of a row of a stage

__device__ __forceinline__ int swizzled(int row, int chunk) {
    return row * kDepth + (chunk ^ (row & 7)) * kRun;
}

template <typename T, int tile_tokens, int tile_columns, int warps_m, int warps_n, int stages>
struct TensorMatmul {
    static constexpr int kThreads = warps_m * warps_n * 32;
    static constexpr int kWarpTokens = tile_tokens / warps_m;
    static constexpr int kWarpColumns = tile_columns / warps_n;
    static constexpr int kTokenTiles = kWarpTokens / 16;
    static constexpr int kColumnTiles = kWarpColumns / 8;
    static constexpr int kStageValues = (tile_tokens + tile_columns) * kDepth;
    static constexpr size_t kSharedBytes = sizeof(T) * kStageValues * stages;
    static_assert(kColumnTiles % 2 == 0 && kTokenTiles > 0);

    using Sums = float[kTokenTiles][kColumnTiles][4];

    // Starts the copy of one factor's part of a stage; what is beyond its edges becomes 0. Values
    // of another type or alignment are converted on the way, without asynchrony.
    static __device__ __forceinline__ void fill(const void* data, DType type, bool copies,
                                                bool aligned, int64_t stride, int first_row,
                                                int tile_rows, int rows, int first_k, int depth,
                                                T* shared) {
#pragma unroll 4
        for (int i = static_cast<int>(threadIdx.x); i < tile_rows * kChunks; i += kThreads) {
            const int row = i / kChunks;
            const int chunk = i % kChunks;
            const int k = first_k + chunk * kRun;
            const bool exists = first_row + row < rows && k < depth;
            const int64_t index = exists ? (first_row + row) * stride + k : 0;
            T* const to = shared + swizzled(row, chunk);
            if (copies) {
                gpu::cp_async16(to, static_cast<const T*>(data) + index, exists ? 16 : 0);
            } else {
                float values[kRun] = {};
                if (exists) load_run_of(data, type, index, depth - k, aligned, values);
                store_packed(to, values);
            }
        }
    }

    static __device__ __forceinline__ void fill_stage(const MatmulCall& call, const RowTile& tile,
                                                      DType type, int first_k, T* stage) {
        fill(call.x, call.x_type, call.x_type == type && call.x_aligned, call.x_aligned,
             call.x_stride, tile.first, tile_tokens, tile.end, first_k, call.in, stage);
        fill(static_cast<const T*>(call.weight) + tile.weight_offset, type, call.weight_aligned,
             call.weight_aligned, call.in, static_cast<int>(blockIdx.x) * tile_columns,
             tile_columns, call.out, first_k, call.in, stage + tile_tokens * kDepth);
    }

    static __device__ __forceinline__ void multiply(const T* stage, int warp_token, int warp_column,
                                                    Sums& sums) {
        const int lane = gpu::lane_id();
        const T* const x = stage;
        const T* const weight = stage + tile_tokens * kDepth;
        const int x_row = warp_token + (lane & 15);
        const int weight_row = warp_column + (lane >> 4) * 8 + (lane & 7);
#pragma unroll
        for (int k = 0; k < kDepth / 16; ++k) {
            uint32_t a[kTokenTiles][4];
#pragma unroll
            for (int i = 0; i < kTokenTiles; ++i) {
                gpu::ldmatrix_x4(a[i], x + swizzled(x_row + 16 * i, 2 * k + (lane >> 4)));
            }
#pragma unroll
            for (int j = 0; j < kColumnTiles; j += 2) {
                uint32_t b[4];
                gpu::ldmatrix_x4(b,
                                 weight + swizzled(weight_row + 8 * j, 2 * k + ((lane >> 3) & 1)));
                const uint32_t first[2] = {b[0], b[1]};
                const uint32_t second[2] = {b[2], b[3]};
#pragma unroll
                for (int i = 0; i < kTokenTiles; ++i) {
                    gpu::mma_m16n8k16<T>(sums[i][j], a[i], first);
                    gpu::mma_m16n8k16<T>(sums[i][j + 1], a[i], second);
                }
            }
        }
    }

    static __device__ __forceinline__ void write(const MatmulCall& call, int end, int first_token,
                                                 int first_column, const Sums& sums) {
        const int lane = gpu::lane_id();
#pragma unroll
        for (int i = 0; i < kTokenTiles; ++i) {
#pragma unroll
            for (int j = 0; j < kColumnTiles; ++j) {
                const int token = first_token + 16 * i + (lane >> 2);
                const int column = first_column + 8 * j + 2 * (lane & 3);
                write_pair(call, end, token, column, sums[i][j][0], sums[i][j][1]);
                write_pair(call, end, token + 8, column, sums[i][j][2], sums[i][j][3]);
            }
        }
    }

    static __device__ void run(const MatmulCall& call, DType type, T* memory) {
        const RowTile tile = find_rows(call, static_cast<int>(blockIdx.y), tile_tokens);
        if (tile.first >= tile.end) return;
        const int num_stages = (call.in + kDepth - 1) / kDepth;
        const auto stage_at = [&](int stage) { return memory + stage % stages * kStageValues; };
#pragma unroll
        for (int stage = 0; stage < stages - 1; ++stage) {
            if (stage < num_stages) fill_stage(call, tile, type, stage * kDepth, stage_at(stage));
            gpu::cp_async_commit();
        }
        const int warp_token = gpu::warp_id() / warps_n * kWarpTokens;
        const int warp_column = gpu::warp_id() % warps_n * kWarpColumns;
        Sums sums = {};
        for (int stage = 0; stage < num_stages; ++stage) {
            gpu::cp_async_wait<stages - 2>();
            __syncthreads();
            // The stage that is filled was multiplied in the round before, which all have left.
            const int next = stage + stages - 1;
            if (next < num_stages) fill_stage(call, tile, type, next * kDepth, stage_at(next));
            gpu::cp_async_commit();
            multiply(stage_at(stage), warp_token, warp_column, sums);
        }
        write(call, tile.end, tile.first + warp_token,
              static_cast<int>(blockIdx.x) * tile_columns + warp_column, sums);
    }
};

template <typename T, int tile_tokens, int tile_columns, int warps_m, int warps_n, int stages>
__global__ void __launch_bounds__(warps_m* warps_n * 32, 1)
    matmul_kernel(MatmulCall call, DType type) {
    GPU_DYNAMIC_SHARED(T, memory);
    TensorMatmul<T, tile_tokens, tile_columns, warps_m, warps_n, stages>::run(call, type, memory);
}

template <typename T, int tile_tokens, int tile_columns, int warps_m, int warps_n, int stages>
void launch_matmul(const Context& context, const MatmulCall& call, DType type) {
    using Matmul = TensorMatmul<T, tile_tokens, tile_columns, warps_m, warps_n, stages>;
    gpu::launch(
        matmul_kernel<T, tile_tokens, tile_columns, warps_m, warps_n, stages>,
        gpu::Launch{.grid = {blocks_for(call.out, tile_columns), num_row_tiles(call, tile_tokens)},
                    .block = {Matmul::kThreads},
                    .shared_bytes = Matmul::kSharedBytes,
                    .stream = context.stream},
        call, type);
}

template <typename T>
void launch_matmul(const Context& context, const MatmulCall& call, DType type) {
    // Of groups nothing is known here but their number: as if rows were spread evenly.
    const int rows = call.starts == nullptr ? call.tokens : call.tokens / call.groups;
    if (rows <= 16) {
        launch_matmul<T, 16, 32, 1, 2, 4>(context, call, type);
    } else if (rows <= 64) {
        launch_matmul<T, 64, 64, 2, 2, 4>(context, call, type);
    } else {
        launch_matmul<T, 128, 128, 2, 4, 3>(context, call, type);
    }
}

}  // namespace

void launch_gemm_tensor_cores(const Context& context, const MatmulCall& call, DType compute_type) {
    if (compute_type == DType::bf16) {
        launch_matmul<__nv_bfloat16>(context, call, compute_type);
    } else {
        launch_matmul<__half>(context, call, compute_type);
    }
}

}  // namespace nvllm::cuda
