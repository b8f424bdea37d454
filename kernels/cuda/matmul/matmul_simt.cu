// Matmuls in float32.
//
// Grid: [columns / 64, tokens / 64], blocks of 256 threads with 4 x 4 outputs each; shared memory:
// 16 k of 64 rows of x and of the weights in float32, 8.5 KiB. Each weight is read once for 64
// tokens, each value of x once for 64 columns. x is rounded to the compute type first.
#include "kernels/cuda/matmul/matmul_tiles.h"

namespace nvllm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 64;   // tokens of a block, and columns
constexpr int kDepth = 16;  // k in shared memory at a time
constexpr int kPitch = kRows + 4;
constexpr int kSide = 4;  // outputs of a thread along each axis

struct RoundTo {
    DType type;

    __device__ __forceinline__ float operator()(float value) const {
        if (type == DType::bf16) return gpu::to_float(gpu::from_float<__nv_bfloat16>(value));
        if (type == DType::f16) return gpu::to_float(gpu::from_float<__half>(value));
        return value;
    }
};

// Values k..k+15 of 64 rows, transposed: threads that stand side by side take neighbouring k.
__device__ __forceinline__ void stage(const void* data, DType type, int64_t stride, int64_t offset,
                                      int first_row, int rows, int first_k, int depth,
                                      const RoundTo& rounded, float (*shared)[kPitch]) {
#pragma unroll
    for (int i = 0; i < kRows * kDepth / kThreads; ++i) {
        const int task = static_cast<int>(threadIdx.x) + i * kThreads;
        const int k = task % kDepth;
        const int row = task / kDepth;
        const bool exists = first_row + row < rows && first_k + k < depth;
        const float value =
            exists ? load_float(data, type, offset + (first_row + row) * stride + first_k + k)
                   : 0.0f;
        shared[k][row] = rounded(value);
    }
}

__global__ void __launch_bounds__(kThreads)
    matmul_kernel(MatmulCall call, DType weight_type, RoundTo rounded) {
    GPU_SHARED(float, x, [kDepth][kPitch]);
    GPU_SHARED(float, weight, [kDepth][kPitch]);
    const RowTile tile = find_rows(call, static_cast<int>(blockIdx.y), kRows);
    if (tile.first >= tile.end) return;
    const int first_column = static_cast<int>(blockIdx.x) * kRows;
    const int row = static_cast<int>(threadIdx.x) / (kRows / kSide) * kSide;
    const int column = static_cast<int>(threadIdx.x) % (kRows / kSide) * kSide;
    float sums[kSide][kSide] = {};
    for (int k = 0; k < call.in; k += kDepth) {
        stage(call.x, call.x_type, call.x_stride, 0, tile.first, tile.end, k, call.in, rounded, x);
        stage(call.weight, weight_type, call.in, tile.weight_offset, first_column, call.out, k,
              call.in, RoundTo{DType::f32}, weight);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kDepth; ++i) {
            float left[kSide];
            float right[kSide];
            load_packed(&x[i][row], left);
            load_packed(&weight[i][column], right);
#pragma unroll
            for (int r = 0; r < kSide; ++r) {
#pragma unroll
                for (int c = 0; c < kSide; ++c) {
                    sums[r][c] = gpu::fma(left[r], right[c], sums[r][c]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
#pragma unroll
        for (int c = 0; c < kSide; ++c) {
            write_output(call, tile.end, tile.first + row + r, first_column + column + c,
                         sums[r][c]);
        }
    }
}

}  // namespace

void launch_gemm_simt(const Context& context, const MatmulCall& call, DType weight_type,
                      DType compute_type) {
    gpu::launch(matmul_kernel,
                gpu::Launch{.grid = {blocks_for(call.out, kRows), num_row_tiles(call, kRows)},
                            .block = {kThreads},
                            .stream = context.stream},
                call, weight_type, RoundTo{compute_type});
}

}  // namespace nvllm::cuda
