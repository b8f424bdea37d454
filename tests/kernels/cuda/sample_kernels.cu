// Two small kernels: sums of rows by a block each, and a transposition by tiles in shared memory.
#include "tests/kernels/cuda/sample_kernels.h"

#include "kernels/cuda/gpu.h"

namespace sample {

namespace gpu = nvllm::gpu;

namespace {

constexpr int kThreads = 128;
constexpr int kTile = 32;
constexpr int kTileRows = 8;

__global__ void __launch_bounds__(kThreads)
    row_sums_kernel(const float* in, float* out, int64_t columns) {
    GPU_SHARED(float, partial, [32]);
    const float* row = in + blockIdx.x * columns;
    float sum = 0;
    for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
    sum = gpu::warp_sum(sum);
    if (gpu::lane_id() == 0) partial[gpu::warp_id()] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0;
        for (int warp = 0; warp < kThreads / gpu::warp_size; ++warp) total += partial[warp];
        out[blockIdx.x] = total;
    }
}

// One column of padding keeps the columns of a tile in different banks.
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_kernel(const float* in, float* out, int64_t rows, int64_t columns) {
    GPU_SHARED(float, tile, [kTile][kTile + 1]);
    const int64_t column = blockIdx.x * kTile + threadIdx.x;
    for (unsigned y = threadIdx.y; y < kTile; y += kTileRows) {
        const int64_t row = blockIdx.y * kTile + y;
        if (row < rows && column < columns) tile[y][threadIdx.x] = in[row * columns + column];
    }
    __syncthreads();
    const int64_t out_column = blockIdx.y * kTile + threadIdx.x;
    for (unsigned y = threadIdx.y; y < kTile; y += kTileRows) {
        const int64_t out_row = blockIdx.x * kTile + y;
        if (out_row < columns && out_column < rows)
            out[out_row * rows + out_column] = tile[threadIdx.x][y];
    }
}

}  // namespace

void row_sums(const float* in, float* out, int64_t rows, int64_t columns) {
    gpu::launch(row_sums_kernel, {.grid = {rows}, .block = {kThreads}}, in, out, columns);
}

void transpose(const float* in, float* out, int64_t rows, int64_t columns) {
    gpu::launch(transpose_kernel,
                {.grid = {(columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile},
                 .block = {kTile, kTileRows}},
                in, out, rows, columns);
}

}  // namespace sample
